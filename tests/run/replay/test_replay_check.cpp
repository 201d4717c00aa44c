// `hanse replay --check`: every rule is pure, and one that is not would be told.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/execute.hpp"
#include "run/json_fields.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr int64_t kClients = 5;

// Numbers in (0, 1], another one for each place.
double number_of(int64_t round, int64_t client, int64_t what) {
  return std::fmod(0.37 + 0.618034 * static_cast<double>(round * 31 + client * 7 + what), 0.99) +
         0.01;
}

Json of_clients(int64_t round, int64_t what) {
  Json all = Json::array();
  for (int64_t client = 0; client < kClients; ++client) {
    all.push_back(number_of(round, client, what));
  }
  return all;
}

// Inner products of vectors that differ.
Json gram_of(int64_t round) {
  Json rows = Json::array();
  for (int64_t i = 0; i < kClients; ++i) {
    for (int64_t j = 0; j < kClients; ++j) {
      double product = i == j ? 1 : 0;
      for (int64_t d = 0; d < 3; ++d) product += number_of(round, i, d) * number_of(round, j, d);
      rows[static_cast<std::size_t>(i)].push_back(product);
    }
  }
  return rows;
}

Json aggregator_trace(const std::string& kind) {
  const bool server_joins = kind == "fltrust";  // the last row is the server's
  Json rounds = Json::array();
  for (int64_t t = 0; t < 12; ++t) {
    Json round{{"losses", of_clients(t, 1)}, {"sizes", of_clients(0, 2)}};
    round["norms"] = of_clients(t, 3);
    round["rates"] = of_clients(t, 4);
    round["distances"] = of_clients(t, 6);
    round["gram"] = round["rows"] = gram_of(t);
    if (server_joins) round.erase("sizes");
    rounds.push_back(round);
  }
  Json rule{{"aggregator.kind", kind}};
  if (kind == "formula") rule["aggregator.formula"] = "n * exp(F) / norm";
  return {{"rule", rule}, {"clients", kClients - server_joins}, {"rounds", rounds}};
}

Json sampler_trace(const std::string& kind) {
  const bool everyone = kind == "full";
  Json rounds = Json::array();
  for (int64_t t = 0; t < 12; ++t) {
    Json round{{"draws", everyone ? Json{0, 1, 2, 3, 4} : Json{t % kClients, (t + 2) % kClients}},
               {"foreseen", of_clients(t, 5)}};
    for (std::size_t i = 0; i < round["draws"].size(); ++i) {
      round["feedback"].push_back(number_of(t, static_cast<int64_t>(i), 6));
    }
    if (kind == "oort") {
      round["squares"] = {number_of(t, 0, 7), number_of(t, 1, 7)};
      round["sizes"] = {3, 5};
      round["durations"] = {number_of(t, 0, 8), number_of(t, 1, 8)};
    }
    if (kind == "power-of-choice") {
      round["candidates"] = round["draws"];
      round["candidate_losses"] = {2, 1};
    }
    if (t % 3 == 1 && !everyone) {
      round["available"] = {t % kClients, (t + 1) % kClients, (t + 2) % kClients};
    }
    rounds.push_back(round);
  }
  Json trace{{"rule", {{"sampler.kind", kind}, {"sampler.per-round", everyone ? 5 : 2}}},
             {"clients", kClients},
             {"rounds", rounds}};
  if (kind == "formula") trace["rule"]["sampler.formula"] = "lambda * (1 + age)";
  if (kind == "weighted" || kind == "lipschitz") trace["initial"] = {0.1, 0.2, 0.3, 0.3, 0.1};
  for (const char* key : {"sampler.horizon", "sampler.rate-scale"}) {
    if (kind.find("osmd") != std::string::npos || kind == "mabs" || kind == "vrb") {
      trace["rule"][key] = 100;
    }
  }
  return trace;
}

std::vector<Json> traces_of_all() {
  std::vector<Json> traces;
  for (const KindFamily& family : catalog()) {
    for (const auto& row : family.rows) {
      if (row.name == "python" || row.name == "plugin") continue;  // a user's own
      if (family.key == "aggregator.kind") traces.push_back(aggregator_trace(row.name));
      if (family.key == "sampler.kind") traces.push_back(sampler_trace(row.name));
    }
  }
  for (const char* kind : {"fed-exp", "local"}) {
    Json rounds = Json::array();
    for (int64_t t = 0; t < 6; ++t) rounds.push_back({{"losses", gram_of(t)}});
    traces.push_back({{"rule", {{"online.kind", kind}, {"online.loss-scale", 6}}},
                      {"nodes", kClients},
                      {"rounds", rounds}});
  }
  for (const char* kind : {"sgd", "adam"}) {
    Json rounds = Json::array();
    for (int64_t t = 0; t < 6; ++t) rounds.push_back({{"update", of_clients(t, 1)}});
    traces.push_back(
        {{"rule", {{"server.optimizer", kind}}}, {"theta", of_clients(0, 2)}, {"rounds", rounds}});
  }
  return traces;
}

TEST(ReplayCheck, EveryRuleIsPure) {
  const auto traces = traces_of_all();
  EXPECT_GE(traces.size(), 24U);
  for (const Json& trace : traces) {
    SCOPED_TRACE(trace["rule"].dump());
    std::string said;
    EXPECT_NO_THROW(said = check_replay(trace.dump()));
    expect_parts(said.substr(0, said.find('\n')),
                 {" is pure: run twice, and once from its saved state in every round"});
  }
}

TEST(ReplayCheck, NamesTheFirstDifference) {
  const Json one{{"next", {1, 2}}, {"rounds", {{{"w", {0.25, 0.5}}}, {{"w", {0.25, 0.5}}}}}};
  EXPECT_EQ(first_difference(one, one), std::nullopt);
  Json other = one;
  other["rounds"][1]["w"][0] = 0.1;
  other["rounds"][1]["w"][1] = 0.1;
  EXPECT_EQ(first_difference(one, other), "rounds[1].w[0] is 0.25, but 0.10000000000000001");
  other = one;
  other["next"] = {1};
  EXPECT_EQ(first_difference(one, other), "next is [1, 2], but [1]");
  other = one;
  EXPECT_EQ(first_difference(Json{0.0}, Json{-0.0}), "[0] is 0, but -0");
}

// theta moves by lr x velocity, and the velocity by half of itself and the update.
TEST(Replay, AServerOptimizerStepsFromThetaAlongTheUpdates) {
  const Json trace{{"rule", {{"server.optimizer", "momentum"}, {"server.beta", 0.5}}},
                   {"theta", {0, 1}},
                   {"rounds", {{{"update", {1, 0}}}, {{"update", {1, 0}}}, {{"update", {0, 2}}}}}};
  const Json found = Json::parse(replay(trace.dump()));
  EXPECT_EQ(found["rounds"][1]["theta"], Json({2.5, 1}));
  EXPECT_EQ(found["rounds"][2]["theta"], Json({3.25, 3}));
  Json bad = trace;
  bad["rounds"][1]["update"] = {1};
  expect_error<InvalidArgument>([&] { replay(bad.dump()); }, {"rounds[1].update"});
}

TEST(ReplayCheck, RefusesWhatReplayRefuses) {
  expect_error<InvalidArgument>([] { check_replay("{"); }, {"not JSON"});
  Json trace = aggregator_trace("afl");
  trace["rounds"][3]["losses"][2] = "a";
  expect_error<InvalidArgument>([&] { check_replay(trace.dump()); }, {"rounds[3].losses"});
}

}  // namespace
}  // namespace hanse
