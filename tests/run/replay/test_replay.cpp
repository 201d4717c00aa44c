#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/run/execute.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;

Json trace(const Json& rounds, const Json& options = Json::object()) {
  Json rule = {{"aggregator.kind", "fedavg"}};
  rule.update(options);
  return {{"rule", rule}, {"clients", 4}, {"rounds", rounds}};
}

std::vector<Numbers> weights(const Json& input) {
  const Json output = Json::parse(replay(input.dump()));
  std::vector<Numbers> result;
  for (const Json& round : output.at("rounds")) {
    EXPECT_EQ(round.at("step"), 1);
    result.push_back(round.at("weights").get<Numbers>());
  }
  return result;
}

TEST(Replay, ADeepTraceIsRefused) {
  const std::string deep(200'000, '['), end(200'000, ']');
  expect_error<InvalidArgument>(
      [&] { replay("{\"rule\": {\"aggregator.kind\": " + deep + end + "}}"); },
      {"nested more than 32 deep"});
}

TEST(Replay, FedAvgInClosedForm) {
  const Json rounds = {{{"participants", {3, 1}}, {"sizes", {10, 30}}},
                       {{"sizes", {1, 1, 2, 4}}},
                       {{"participants", {2}}, {"sizes", {5}}, {"draw_weights", {0.5}}},
                       {{"participants", {0, 2}}, {"sizes", {6, 2}}, {"draw_weights", {1, 5}}}};
  EXPECT_EQ(weights(trace(rounds)),
            (std::vector<Numbers>{{0.25, 0.75}, {0.125, 0.125, 0.25, 0.5}, {1}, {0.375, 0.625}}));
  EXPECT_EQ(weights(trace(rounds, {{"aggregator.weights", "uniform"}})),
            (std::vector<Numbers>{{0.5, 0.5}, {0.25, 0.25, 0.25, 0.25}, {1}, {1.0 / 6, 5.0 / 6}}));
  EXPECT_EQ(weights(trace(
                rounds, {{"aggregator.weights", "uniform"}, {"aggregator.estimator", "unbiased"}})),
            (std::vector<Numbers>{{0.25, 0.25}, {0.25, 0.25, 0.25, 0.25}, {0.125}, {0.25, 1.25}}));
}

TEST(Replay, FormulaInClosedForm) {
  const Json rounds = {{{"participants", {3, 1}},
                        {"sizes", {10, 30}},
                        {"draw_weights", {2, 1}},
                        {"losses", {3, 1}},
                        {"norms", {1, 4}}}};
  const auto by = [&](const std::string& formula) {
    return weights(
        trace(rounds, {{"aggregator.kind", "formula"}, {"aggregator.formula", formula}}));
  };
  EXPECT_EQ(by("n"), (std::vector<Numbers>{{0.25, 0.75}}));
  EXPECT_EQ(by("n * w * F"), (std::vector<Numbers>{{60.0 / 90, 30.0 / 90}}));
  EXPECT_EQ(by("norm"), (std::vector<Numbers>{{0.2, 0.8}}));
}

TEST(Replay, NobodyThereMixesNothing) {
  const Json rounds = {{{"participants", Json::array()}, {"sizes", Json::array()}},
                       {{"participants", {3, 1}}, {"sizes", {10, 30}}}};
  EXPECT_EQ(weights(trace(rounds)), (std::vector<Numbers>{{}, {0.25, 0.75}}));
}

TEST(Replay, PrintsSeventeenDigitsOnOneLine) {
  const Json rounds = {{{"participants", {0, 1, 2}}, {"sizes", {1, 1, 1}}}};
  const std::string third = "0.33333333333333331";
  EXPECT_EQ(replay(trace(rounds).dump()), "{\"rounds\": [{\"step\": 1, \"weights\": [" + third +
                                              ", " + third + ", " + third + "]}]}\n");
  EXPECT_EQ(replay(trace(Json::array()).dump()), "{\"rounds\": []}\n");
}

// Before memory is taken for them.
TEST(Replay, AllOfTooManyClients) {
  constexpr int64_t kClients = 1 << 30, kBytes = 64 * kClients;
  if (available_memory() >= kBytes) GTEST_SKIP() << "this machine has the memory";
  Json input = trace(Json::array({Json::object()}));
  input["clients"] = kClients;
  expect_error<IoError>([&] { replay(input.dump()); },
                        {"1073741824 clients takes", "GB of memory"});
}

void expect_refused(const Json& input, std::initializer_list<std::string> parts) {
  expect_error<InvalidArgument>([&] { replay(input.dump()); }, parts);
}

TEST(Replay, NamesTheMalformedFieldOfTheTrace) {
  expect_error<InvalidArgument>([] { replay("{"); }, {"not JSON"});
  expect_error<InvalidArgument>([] { replay(""); }, {"not JSON"});
  const Json good = trace(Json::array());
  for (const char* name : {"rule", "clients", "rounds"}) {
    Json input = good;
    input.erase(name);
    expect_refused(input, {std::string("field '") + name + "' is missing", "trace"});
  }
  expect_refused(Json::array(), {"'rule' is missing"});
  for (const Json& clients :
       {Json(0), Json(-3), Json(1.5), Json("4"), Json(1ULL << 63), Json((1 << 30) + 1)}) {
    Json input = good;
    input["clients"] = clients;
    expect_refused(input, {"clients", clients.dump()});
  }
  for (const Json& rounds : {Json(3), Json(nullptr), Json({{"a", {{"sizes", {1, 1, 1, 1}}}}})}) {
    expect_refused(trace(rounds), {"rounds", "array"});
  }
}

TEST(Replay, NamesTheMalformedOptionOfTheRule) {
  Json input = trace(Json::array());
  input["rule"] = Json::array();
  expect_refused(input, {"rule"});
  input["rule"] = {{"client.lr", 0.1}};
  expect_refused(input, {"rule", "aggregator.kind", "fedavg"});
  expect_refused(trace(Json::array(), {{"aggregator.kind", "fedavgg"}}),
                 {"rule.aggregator.kind", "'fedavgg'", "did you mean 'fedavg'"});
  expect_refused(trace(Json::array(), {{"aggregator.weight", "uniform"}}),
                 {"rule.aggregator.weight", "unknown key", "aggregator.weights"});
  expect_refused(trace(Json::array(), {{"aggregator.weights", 3}}),
                 {"rule.aggregator.weights", "'3'"});
}

TEST(Replay, NamesTheMalformedFieldOfARound) {
  const auto refused = [](const Json& round, std::initializer_list<std::string> parts) {
    const Json good = {{"sizes", {1, 1, 1, 1}}};
    expect_refused(trace({good, round}), parts);
  };
  refused(Json::object(), {"'sizes' is missing", "rounds[1]"});
  refused(3, {"rounds[1]"});
  refused({{"sizes", {1, 1}}}, {"array of 4 numbers", "rounds[1].sizes"});
  refused({{"sizes", 4}}, {"array of 4 numbers", "rounds[1].sizes"});
  refused({{"sizes", {1, 1, -1, 1}}}, {"-1 is below 0", "rounds[1].sizes"});
  refused({{"sizes", {1, 1, "1", 1}}}, {"finite number", "rounds[1].sizes"});
  refused({{"sizes", {1, 1, nullptr, 1}}}, {"finite number", "rounds[1].sizes"});
  refused({{"sizes", {0, 0, 0, 0}}}, {"sum to 0"});
  refused({{"participants", 2}, {"sizes", {1}}}, {"rounds[1].participants"});
  refused({{"participants", {4}}, {"sizes", {1}}},
          {"4 is no integer in [0, 4)", "rounds[1].participants"});
  refused({{"participants", {-1}}, {"sizes", {1}}}, {"rounds[1].participants"});
  refused({{"participants", {0.5}}, {"sizes", {1}}}, {"rounds[1].participants"});
  refused({{"participants", {0, 1}}, {"sizes", {1, 1}}, {"draw_weights", {1}}},
          {"array of 2 numbers", "rounds[1].draw_weights"});
  refused({{"participants", {0}}, {"sizes", {1}}, {"draw_weights", {-0.5}}},
          {"rounds[1].draw_weights"});
  expect_error<InvalidArgument>(
      [] {
        replay(R"({"rule": {"aggregator.kind": "fedavg"}, "clients": 1,
                   "rounds": [{"sizes": [1e999]}]})");
      },
      {});
}

}  // namespace
}  // namespace hanse
