#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rules/bandit/reference.hpp"
#include "hanse/base/error.hpp"
#include "hanse/run/replay.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Json = nlohmann::json;

// Two clients on two arms with features e_1 and e_2, so that all is scalar: with n pulls of an arm
// its width is 1 / sqrt(lambda + n), its mean the sum of residuals / (lambda + n).
Json two_arms() {
  return {{"rule",
           {{"bandit.kind", "fed-go-ucb"},
            {"bandit.lambda", 1},
            {"bandit.gamma", 0.5},
            {"bandit.sqrt-beta", 1}}},
          {"clients", 2},
          {"horizon", 3},
          {"features", {{1, 0}, {0, 1}}},
          {"base", {0, 0}},
          {"values", {0, 0.25}},
          {"noise", {0, 0, 0, 0, 0, 0}}};
}

Json replayed(const Json& trace) { return Json::parse(replay(trace.dump())); }

// n pulls of the arms and mean 0.25 n_1 / (1 + n_1) of arm 1, by hand.
// 1: equal bounds, arm 0; log 2 > 0.5, all know n = (1, 0).  2: sqrt(1/2) < 1, arm 1; log 2, all
// know (1, 1).  3: 0.125 + sqrt(1/2), arm 1; log(3/2) = 0.405.  4: the same for client 1.
// 5: client 0 knows (1, 2): 0.167 + 0.577 = 0.744 > 0.707, arm 1; 2 log(4/2) > 0.5, all know (1,
// 4). 6: 0.2 + sqrt(1/5) = 0.647, arm 0; log(3/2).
TEST(ReplayBandit, InClosedForm) {
  const Json result = replayed(two_arms());
  EXPECT_EQ(result["picks"], Json({0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(result["syncs"], Json({1, 2, 5}));
  EXPECT_EQ(result["regret"], Json({0.25, 0.25, 0.25, 0.25, 0.25, 0.5}));
  EXPECT_EQ(result["scalars_sent"], 3 * 2 * 2 * (2 * 2 + 2));
}

TEST(ReplayBandit, OneSynchronizesAlwaysAndNNever) {
  Json trace = two_arms();
  trace["rule"]["bandit.kind"] = "one-go-ucb";
  EXPECT_EQ(replayed(trace)["syncs"], Json({1, 2, 3, 4, 5, 6}));
  trace["rule"]["bandit.kind"] = "n-go-ucb";
  const Json never = replayed(trace);
  EXPECT_EQ(never["syncs"], Json::array());
  EXPECT_EQ(never["scalars_sent"], 0);
  EXPECT_EQ(never["picks"], Json({0, 0, 1, 1, 1, 1}));  // each client alone: 0, then 1, then 1
}

// The base moves the bounds and is taken from the rewards: a base that is the truth leaves
// residuals of 0, and only the width decides.
TEST(ReplayBandit, ResidualsAreFromTheBase) {
  Json trace = two_arms();
  trace["base"] = trace["values"];
  trace["clients"] = 1;
  trace["horizon"] = 6;
  trace["rule"]["bandit.gamma"] = 1e9;
  // Bounds 1 / sqrt(1 + n_0): 1, .707; 0.25 + 1 / sqrt(1 + n_1): 1.25, .957, .827, .75, .697
  EXPECT_EQ(replayed(trace)["picks"], Json({1, 0, 1, 1, 1, 0}));
}

// Random features against Algorithm 1 word for word, with the automatic radius.
TEST(ReplayBandit, IsAlgorithm1) {
  for (const char* statistics : {"auto", "packed", "per-arm"}) {
    const TestBandit bandit = random_bandit(4, 20, 6, 9, 5);
    Json features = Json::array();
    for (std::size_t a = 0; a < 6; ++a) {
      features.push_back(
          std::vector<double>(bandit.features.begin() + static_cast<int64_t>(9 * a),
                              bandit.features.begin() + static_cast<int64_t>(9 * a + 9)));
    }
    const Json trace = {{"rule",
                         {{"bandit.kind", "fed-go-ucb"},
                          {"bandit.lambda", 0.3},
                          {"bandit.gamma", 2.5},
                          {"bandit.sigma", 0.2},
                          {"bandit.delta", 0.05},
                          {"bandit.radius", 0.5},
                          {"bandit.statistics", statistics}}},
                        {"clients", 4},
                        {"horizon", 20},
                        {"features", features},
                        {"base", bandit.base},
                        {"values", bandit.values},
                        {"noise", bandit.noise}};
    const Play expected = play_literally(
        bandit, {.lambda = 0.3, .gamma = 2.5, .sigma = 0.2, .delta = 0.05, .radius = 0.5});
    const Json result = replayed(trace);
    EXPECT_EQ(result["picks"], Json(expected.picks));
    EXPECT_EQ(result["syncs"], Json(expected.syncs));
    EXPECT_GT(expected.syncs.size(), 3U);
  }
}

TEST(ReplayBandit, BadTracesAreRefusedByName) {
  const auto refuse = [](const std::function<void(Json&)>& spoil,
                         std::initializer_list<std::string> parts) {
    Json trace = two_arms();
    spoil(trace);
    expect_error<InvalidArgument>([&] { replay(trace.dump()); }, parts);
  };
  refuse([](Json& t) { t["features"] = {{1, 0}}; }, {"two arms", "features"});
  refuse([](Json& t) { t["features"][1] = {1, 2, 3}; }, {"array of 2 numbers", "arm 1"});
  refuse([](Json& t) { t["features"][1][0] = nullptr; }, {"not a finite number", "arm 1"});
  refuse([](Json& t) { t["features"] = {Json::array(), Json::array()}; }, {"without features"});
  refuse([](Json& t) { t["base"] = {1}; }, {"array of 2 numbers", "trace.base"});
  refuse([](Json& t) { t["noise"].push_back(0); }, {"array of 6 numbers", "trace.noise"});
  refuse([](Json& t) { t["rule"]["bandit.lambda"] = 0; }, {"bandit.lambda"});
  refuse([](Json& t) { t["rule"]["bandit.lambda"] = -1; }, {"bandit.lambda"});
  refuse([](Json& t) { t["rule"]["bandit.gamma"] = -0.5; }, {"bandit.gamma"});
  refuse([](Json& t) { t["rule"]["bandit.delta"] = 0; }, {"bandit.delta"});
  refuse([](Json& t) { t["rule"]["bandit.ucb"] = "ellipsoid"; }, {"no network"});
  refuse([](Json& t) { t["clients"] = 0; }, {"clients"});
  refuse([](Json& t) { t.erase("horizon"); }, {"horizon"});
}

}  // namespace
}  // namespace hanse
