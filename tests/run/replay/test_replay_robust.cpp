#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/run/execute.hpp"
#include "rules/aggregation/rows.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Json = nlohmann::json;

Json replayed(const Json& rule, const Json& rounds, const Json& more = Json::object()) {
  Json trace{{"rule", rule}, {"rounds", rounds}};
  trace.update(more);
  Json result = Json::parse(replay(trace.dump()));
  EXPECT_EQ(result.at("rounds").size(), rounds.size());
  return result.at("rounds");
}

Json robust(const std::string& kind, double byzantine) {
  return {{"aggregator.kind", kind}, {"aggregator.byzantine", byzantine}};
}

Numbers numbers(const Json& array) { return array.get<Numbers>(); }

Json products(const Rows& rows) {
  Json gram = Json::array();
  for (const Numbers& a : rows) {
    Json row = Json::array();
    for (const Numbers& b : rows) row.push_back(dot(a, b));
    gram.push_back(row);
  }
  return gram;
}

Numbers weights_of(const Json& rule, const Rows& rows) {
  return numbers(replayed(rule, {{{"gram", products(rows)}}})[0]["weights"]);
}

const Rows kFive{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {10, 10}};

TEST(ReplayRobust, RulesByInnerProductsTakeAMatrix) {
  expect_near(weights_of(robust("krum", 1), kFive), {1, 0, 0, 0, 0}, 0);
  expect_near(weights_of(robust("multi-krum", 1), kFive), {.25, .25, .25, .25, 0}, 1e-15);
  expect_near(weights_of(robust("mda", 1), kFive), {.25, .25, .25, .25, 0}, 1e-15);
  expect_near(weights_of(robust("smea", 1), kFive), {.25, .25, .25, .25, 0}, 1e-15);
  expect_near(weights_of(robust("geometric-median", 0.2), kFive),
              {.30925206, .23845826, .23845826, .20114398, .01268744}, 1e-8);
  Json monna = robust("monna", 2);
  monna["aggregator.pivot"] = 3;
  expect_near(weights_of(monna, kFive), {0, 1. / 3, 1. / 3, 1. / 3, 0}, 1e-15);
  EXPECT_NEAR(weights_of(robust("caf", 1), kFive)[4], 0, 1e-12);
}

TEST(ReplayRobust, FormsOfKrumAndWhatIsKept) {
  const Rows line{{0}, {1}, {2}, {4}, {5}};
  Json rule = robust("krum", 1);
  expect_near(weights_of(rule, line), {0, 1, 0, 0, 0}, 0);
  rule["aggregator.variant"] = "reference";
  expect_near(weights_of(rule, line), {0, 0, 1, 0, 0}, 0);
  rule["aggregator.kind"] = "multi-krum";
  rule["aggregator.keep"] = 2;
  expect_near(weights_of(rule, line), {0, .5, .5, 0, 0}, 0);
}

TEST(ReplayRobust, WhatComesBeforeMapsTheRows) {
  Json rule = robust("krum", 1);
  rule["aggregator.before"] = "nnm";
  expect_near(weights_of(rule, kFive), {.25, .25, .25, .25, 0}, 1e-15);
  rule = {{"aggregator.kind", "fedavg"},
          {"aggregator.weights", "uniform"},
          {"aggregator.before", "clip(2)"}};
  const Json gram = products(kFive);
  const Numbers clipped =
      numbers(replayed(rule, {{{"gram", gram}}}, {{"clients", 5}})[0]["weights"]);
  expect_near(clipped, {.2, .2, .2, .2, .2 * 2 / std::sqrt(200)}, 1e-15);
}

TEST(ReplayRobust, BucketingTakesTheRoundsPermutation) {
  Json rule = {{"aggregator.kind", "krum"}, {"aggregator.before", "bucketing(2)"}};
  // Buckets {4, 0}, {1, 2}, {3} have the means 3.5, 1.5 and 4; the last is nearest to another.
  const Rows line{{0}, {1}, {2}, {4}, {7}};
  const Json round{{"gram", products(line)}, {"permutation", {4, 0, 1, 2, 3}}};
  expect_near(numbers(replayed(rule, Json::array({round}))[0]["weights"]), {.5, 0, 0, 0, .5}, 0);
  Json twice = round;
  twice["permutation"] = {4, 0, 1, 1, 3};
  expect_error<InvalidArgument>([&] { replayed(rule, Json::array({twice})); },
                                {"permutation", "each of 0 to 4"});
}

TEST(ReplayRobust, AnExtraRowStandsLast) {
  // cos = 1, 0.6, 0 with the server's (2, 0).
  const Rows rows{{1, 0}, {3, 4}, {0, 3}, {2, 0}};
  expect_near(weights_of(robust("fltrust", 1), rows), {2 / 1.6, 0.6 / 1.6 * 2 / 5, 0, 0}, 1e-15);
  Json rule = robust("centered-clipping", 0);
  rule["aggregator.radius"] = 1;
  const Rows last{{4}, {1.5}, {1}};
  // From m = 1: 4 counts a third, 1.5 all.
  expect_near(weights_of(rule, last), {1. / 6, .5, 1. / 3}, 1e-15);
  // Without it: from 0, a quarter of 4, two thirds of 1.5, all of 1.
  const Json all =
      replayed(rule, {{{"gram", products(last)}, {"participants", {0, 1, 2}}}}, {{"clients", 3}});
  expect_near(numbers(all[0]["weights"]), {1. / 12, 2. / 9, 1. / 3}, 1e-15);
}

TEST(ReplayRobust, RulesByColumnsTakeRowsAndGiveAnUpdate) {
  const Json rows = {{1, 9}, {2, 7}, {3, 8}, {100, -5}};
  const auto update = [&](const Json& rule) {
    return numbers(replayed(rule, {{{"rows", rows}}})[0]["update"]);
  };
  expect_near(update(robust("median", 1)), {2.5, 7.5}, 0);
  Json lower = robust("median", 1);
  lower["aggregator.variant"] = "reference";
  expect_near(update(lower), {2, 7}, 0);
  expect_near(update(robust("trimmed-mean", 1)), {2.5, 7.5}, 0);
  expect_near(update(robust("meamed", 1)), {2, 8}, 0);
  Json clipped = robust("median", 1);
  clipped["aggregator.before"] = "clip(1)";
  EXPECT_LT(norm(update(clipped)), 1);
  const Json seven = {{0}, {1}, {2}, {3}, {4}, {5}, {90}};
  const Json result = replayed(robust("bulyan", 1), {{{"rows", seven}}});
  EXPECT_LT(numbers(result[0]["update"])[0], 5);
}

TEST(ReplayRobust, TooFewRowsAreAnErrorOrNoStep) {
  Json rule = robust("krum", 3);
  expect_error<InvalidArgument>([&] { weights_of(rule, kFive); },
                                {"krum with f = 3 needs at least 9 rows (Blanchard et al. 2017)"});
  rule["aggregator.shortfall"] = "skip";
  expect_near(weights_of(rule, kFive), Numbers(5), 0);
}

}  // namespace
}  // namespace hanse
