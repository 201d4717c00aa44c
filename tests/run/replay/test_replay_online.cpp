#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/run/execute.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Json = nlohmann::json;
using Table = std::vector<std::vector<double>>;

Json trace(const Json& rounds, const Json& options = Json::object()) {
  Json rule = {{"online.kind", "fed-exp"}, {"online.eta", std::log(4.0)}};
  rule.update(options);
  return {{"rule", rule}, {"nodes", 2}, {"rounds", rounds}};
}

std::vector<Table> weights(const Json& input) {
  const Json output = Json::parse(replay(input.dump()));
  std::vector<Table> result;
  for (const Json& round : output.at("rounds")) {
    result.push_back(round.at("weights").get<Table>());
  }
  return result;
}

void expect_near(const std::vector<Table>& found, const std::vector<Table>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t t = 0; t < found.size(); ++t) {
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 2; ++j) {
        EXPECT_NEAR(found[t][i][j], expected[t][i][j], 1e-14) << t << " " << i << " " << j;
      }
    }
  }
}

// eta = log 4: a loss of 0.5 halves a weight.
const Json kRounds = {{{"losses", {{0, 0.5}, {1, 0}}}},
                      {{"losses", {{0.5, 0}, {0, 0.5}}}, {"participants", {1}}},
                      {{"losses", {{0, 1}, {0, 0}}}, {"participants", {1, 0}}}};

TEST(ReplayOnline, FedExpInClosedForm) {
  expect_near(weights(trace(kRounds)), {{{2.0 / 3, 1.0 / 3}, {1.0 / 5, 4.0 / 5}},
                                        {{0, 1}, {0, 1}},
                                        {{4.0 / 5, 1.0 / 5}, {1.0 / 3, 2.0 / 3}}});
}

// Equal losses: equal weights. lambda = 1: L + mu = 1/w, so that w = 2/3 and 1/3 for L_2 = L_1
// + 1.5.
TEST(ReplayOnline, OmniFedge) {
  const Json rounds = {{{"losses", {{7, 7}, {2, 3.5}}}}};
  const Json rule = {{"online.kind", "omni-fedge"}, {"online.lambda", 1}};
  const Json output =
      Json::parse(replay(Json{{"rule", rule}, {"nodes", 2}, {"rounds", rounds}}.dump()));
  const auto found = output.at("rounds")[0].at("weights").get<Table>();
  const Table expected{{0.5, 0.5}, {2.0 / 3, 1.0 / 3}};
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(found[i][j], expected[i][j], 1e-7);
  }
}

TEST(ReplayOnline, LossesAreScaledAndClipped) {
  const Json rounds = {{{"losses", {{0, 3}, {40, 0}}}}};
  expect_near(weights(trace(rounds, {{"online.loss-scale", 6}})),
              {{{2.0 / 3, 1.0 / 3}, {1.0 / 5, 4.0 / 5}}});
}

TEST(ReplayOnline, EtaIsTheBestForTheTraceByDefault) {
  const Json rounds = {{{"losses", {{0, 1}, {0, 0}}}}, {{"losses", {{0, 0}, {0, 0}}}}};
  const double ratio = std::exp(-std::sqrt(8 * std::log(2.0) / 2));
  const auto found = weights(trace(rounds, {{"online.eta", "auto"}}));
  EXPECT_NEAR(found[1][0][1] / found[1][0][0], ratio, 1e-14);
}

TEST(ReplayOnline, OtherRules) {
  EXPECT_EQ(weights(trace(kRounds, {{"online.kind", "local"}})),
            std::vector<Table>(3, {{1, 0}, {0, 1}}));
  EXPECT_EQ(
      weights(trace(kRounds, {{"online.kind", "fedsgd"}})),
      (std::vector<Table>{{{0.5, 0.5}, {0.5, 0.5}}, {{0, 1}, {0, 1}}, {{0.5, 0.5}, {0.5, 0.5}}}));
}

TEST(ReplayOnline, PrintsSeventeenDigitsOnOneLine) {
  EXPECT_EQ(replay(R"({"rule": {"online.kind": "fedsgd"}, "nodes": 3,
                       "rounds": [{"losses": [[0,0,0],[0,0,0],[0,0,0]], "participants": [0]}]})"),
            "{\"rounds\": [{\"weights\": [[1, 0, 0], [1, 0, 0], [1, 0, 0]]}]}\n");
}

void expect_refused(const Json& input, std::initializer_list<std::string> parts) {
  expect_error<InvalidArgument>([&] { replay(input.dump()); }, parts);
}

TEST(ReplayOnline, NamesWhatIsWrong) {
  Json input = trace(kRounds);
  input.erase("nodes");
  expect_refused(input, {"'nodes'"});
  input["nodes"] = 0;
  expect_refused(input, {"0 is no integer", "nodes"});
  expect_refused(trace({{{"losses", {{0, 0}}}}}), {"array of 2 rows", "rounds[0].losses"});
  expect_refused(trace({{{"losses", {{0, 0}, {0}}}}}), {"array of 2 numbers", "rounds[0].losses"});
  expect_refused(trace({{{"losses", {{0, 0}, {0, 1.5}}}}}),
                 {"1.5", "outside [0, 1]", "rounds[0].losses", "online.loss-scale"});
  expect_refused(trace({{{"losses", {{0, 0}, {0, -1}}}}}), {"-1", "rounds[0].losses"});
  expect_refused(trace({{{"participants", {0}}}}), {"'losses'", "rounds[0]"});
  expect_refused(trace({{{"losses", {{0, 0}, {0, 0}}}, {"participants", {2}}}}),
                 {"2 is no integer in [0, 2)", "rounds[0].participants"});
  expect_refused(trace(kRounds, {{"online.eta", 0}}), {"0 is not in (0, inf)", "online.eta"});
  expect_refused(trace(kRounds, {{"online.eta", -0.5}}), {"-0.5", "online.eta"});
  expect_refused(trace(kRounds, {{"online.eta", "fast"}}), {"fast", "online.eta"});
  expect_refused(trace(kRounds, {{"online.kind", "fedexp"}}), {"did you mean 'fed-exp'"});
  expect_refused(trace(kRounds, {{"online.rate", 1}}), {"online.rate"});
}

}  // namespace
}  // namespace hanse
