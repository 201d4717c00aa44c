#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/rules/bandit/kernel.hpp"
#include "hanse/rules/bandit/logistic.hpp"
#include "hanse/run/execute.hpp"
#include "rules/bandit/reference.hpp"
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

Json rows_of(const TestBandit& bandit) {
  Json rows = Json::array();
  for (auto row = bandit.features.begin(); row != bandit.features.end(); row += bandit.dimension) {
    rows.push_back(std::vector<double>(row, row + bandit.dimension));
  }
  return rows;
}

// The policies have slow references of their own; here the fields, options and defaults.
TEST(ReplayBandit, LogisticAndKernelTracesPlayTheirPolicies) {
  TestBandit bandit = random_bandit(3, 12, 7, 2, 21);
  for (double& value : bandit.values) value = 1 / (1 + std::exp(-value));
  const Arms arms{bandit.dimension, bandit.features, bandit.values};
  const auto features = std::make_shared<const ArmFeatures>(bandit.features, std::vector<double>(7),
                                                            StatisticsForm::kPerArm);
  std::vector<double> uniforms(400);
  RandomStream stream(8, Purpose::kArms);
  for (double& u : uniforms) u = stream.uniform();
  const double turns = 3 * 12;
  const UcbOptions kernel{.lambda = 0.2, .gamma = 12 / (3 * std::log(turns))};
  const UcbOptions logistic{.lambda = 2,
                            .gamma = 12 / (3 * 2 * std::log(turns)),
                            .sigma = 0.5,
                            .delta = 0.01,
                            .width = 0.1};
  UcbOptions approximate = kernel;
  approximate.gamma = 1.0 / 3;
  const auto expect_plays = [&](const Json& rule, BanditPolicy& policy) {
    const bool points = rule["bandit.kind"] != "fed-glb-ucb";
    Json trace = {{"rule", rule},
                  {"clients", 3},
                  {"horizon", 12},
                  {points ? "points" : "features", rows_of(bandit)},
                  {"values", bandit.values},
                  {"noise", bandit.noise}};
    if (points) trace["uniforms"] = uniforms;
    std::size_t used = 0;
    const Play expected = play_policy(policy, bandit, [&] { return uniforms.at(used++); });
    const Json result = replayed(trace);
    EXPECT_EQ(result["picks"], Json(expected.picks)) << rule;
    EXPECT_EQ(result["syncs"], Json(expected.syncs)) << rule;
    EXPECT_EQ(result["scalars_sent"], expected.scalars) << rule;
    EXPECT_EQ(result.contains("dictionary"), points);
    if (points) {
      EXPECT_EQ(result["dictionary"], Json(expected.dictionary)) << rule;
    }
    EXPECT_GT(expected.syncs.size(), 1U) << rule;
  };
  expect_plays({{"bandit.kind", "fed-glb-ucb"}}, *make_logistic_policy(features, logistic, 3));
  expect_plays({{"bandit.kind", "dis-kernel-ucb"}}, *make_kernel_policy(arms, kernel, {}, 3));
  expect_plays({{"bandit.kind", "approx-dis-kernel-ucb"}},
               *make_dictionary_policy(arms, approximate, {}, 3));
  UcbOptions other = logistic;
  other.lambda = 0.5, other.gamma = 3, other.sigma = 0.2, other.delta = 0.2;
  other.radius = 0.3, other.width = 0.05;
  expect_plays({{"bandit.kind", "fed-glb-ucb"},
                {"bandit.lambda", 0.5},
                {"bandit.gamma", 3},
                {"bandit.sigma", 0.2},
                {"bandit.delta", 0.2},
                {"bandit.radius", 0.3},
                {"bandit.width", 0.05}},
               *make_logistic_policy(features, other, 3));
  other.gamma = 1.5;
  expect_plays({{"bandit.kind", "approx-dis-kernel-ucb"},
                {"bandit.lambda", 0.5},
                {"bandit.gamma", 1.5},
                {"bandit.width", 0.05},
                {"bandit.kernel-length", 0.4},
                {"bandit.inclusion", 0.3}},
               *make_dictionary_policy(arms, other, {.length = 0.4, .inclusion = 0.3}, 3));
}

// With points far apart all is scalar: k = 1 on the diagonal and 0 elsewhere. lambda = 1, q = 0.5.
// 1: no dictionary, arm 0; sigma^2 = 1 is not above 1.  2: the same for client 1.  3: arm 0 again,
// 2 > 1: client 0's pulls take 0.4 < 0.5 and 0.6, client 1's takes 0.5, not below 0.5. So S = {0};
// n = 3 pulls of arm 0 are known: sigma^2 = 1/4 there, 1 elsewhere.  4: arm 1, 1 of client 1.
// 5: arm 1 for client 0.  6: arm 1 has no feature yet, so nothing was learnt: again; 2 > 1. Client
// 0 has 0, 0, 1, client 1 has 0, 1, 1; arm 0 with chance 1/8, arm 1 with 1/2.
TEST(ReplayBandit, DictionariesInClosedForm) {
  const Json trace = {{"rule",
                       {{"bandit.kind", "approx-dis-kernel-ucb"},
                        {"bandit.lambda", 1},
                        {"bandit.gamma", 1},
                        {"bandit.inclusion", 0.5}}},
                      {"clients", 2},
                      {"horizon", 3},
                      {"points", {{0.0}, {1e3}}},
                      {"values", {0, 0.25}},
                      {"noise", {0, 0, 0, 0, 0, 0}},
                      {"uniforms", {0.4, 0.6, 0.5, 0.12, 0.9, 0.49, 0.13, 0.5, 0.2, 7}}};
  const Json result = replayed(trace);
  EXPECT_EQ(result["picks"], Json({0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(result["syncs"], Json({3, 6}));
  EXPECT_EQ(result["dictionary"], Json({1, 2}));
  // 1 + 2 (1 + 2 (1 + 1)), then {0, 1} and {1} up: 3 + 2 (2 + 2 (4 + 2)).
  EXPECT_EQ(result["scalars_sent"], 11 + 31);
  Json short_of = trace;
  short_of["uniforms"] = {0.4, 0.6, 0.5, 0.12};
  expect_error<InvalidArgument>([&] { replay(short_of.dump()); }, {"only 4", "trace.uniforms"});
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
  const auto refuse_kind = [&](const std::string& kind, const std::function<void(Json&)>& spoil,
                               std::initializer_list<std::string> parts) {
    refuse(
        [&](Json& t) {
          t["rule"] = {{"bandit.kind", kind}};
          t["points"] = t["features"];
          t["uniforms"] = Json::array();
          spoil(t);
        },
        parts);
  };
  refuse_kind("fed-glb-ucb", [](Json& t) { t["values"][1] = 1.01; }, {"1.01 of arm 1", "[0, 1]"});
  refuse_kind("fed-glb-ucb", [](Json& t) { t["values"][0] = -0.1; }, {"-0.1 of arm 0"});
  refuse_kind("fed-glb-ucb", [](Json& t) { t["rule"]["bandit.radius"] = 26; }, {"bandit.radius"});
  refuse_kind("fed-glb-ucb", [](Json& t) { t.erase("features"); }, {"features"});
  for (const char* kind : {"dis-kernel-ucb", "approx-dis-kernel-ucb"}) {
    refuse_kind(kind, [](Json& t) { t["rule"]["bandit.kernel-length"] = 0; },
                {"bandit.kernel-length"});
    refuse_kind(kind, [](Json& t) { t["rule"]["bandit.lambda"] = 0; }, {"bandit.lambda"});
    refuse_kind(kind, [](Json& t) { t["points"] = {{1}}; }, {"two arms", "coordinates", "points"});
    refuse_kind(kind, [](Json& t) { t.erase("points"); }, {"points"});
  }
  refuse_kind("approx-dis-kernel-ucb", [](Json& t) { t.erase("uniforms"); }, {"uniforms"});
  refuse_kind("approx-dis-kernel-ucb", [](Json& t) { t["uniforms"] = {0.5, -0.1}; }, {"uniforms"});
  refuse_kind("approx-dis-kernel-ucb", [](Json& t) { t["rule"]["bandit.inclusion"] = -1; },
              {"bandit.inclusion"});
}

}  // namespace
}  // namespace hanse
