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

Json attack(const std::string& kind, int64_t byzantine) {
  return {{"attack.kind", kind}, {"attack.byzantine", byzantine}};
}

Json round_of(const Json& rule, const Rows& rows) {
  const Json trace{{"rule", rule}, {"rounds", {{{"rows", rows}}}}};
  return Json::parse(replay(trace.dump())).at("rounds").at(0);
}

const Rows kThree{{0, 0}, {2, 0}, {0, 2}};

TEST(ReplayAttack, PrintsTheRowAndItsStrength) {
  const Json found = round_of(attack("min-max", 1), kThree);
  const double gamma = std::sqrt(6.0) - std::sqrt(2.0) / 3;
  EXPECT_NEAR(found["strength"], gamma, 1e-14);
  const double x = 2. / 3 - gamma / std::sqrt(2.0);
  expect_near(found["row"].get<Numbers>(), {x, x}, 1e-14);
  EXPECT_NEAR(round_of(attack("min-sum", 1), kThree)["strength"], std::sqrt(20.0) / 3, 1e-14);
  Json ipm = attack("ipm", 2);
  ipm["attack.strength"] = 0.5;
  expect_near(round_of(ipm, kThree)["row"].get<Numbers>(), {-1. / 3, -1. / 3}, 1e-15);
  // The deviation by column, with ddof 1, is that of 0, 2, 0.
  const double s = std::sqrt(4. / 3);
  expect_near(round_of(attack("alie", 1), kThree)["row"].get<Numbers>(),
              {2. / 3 + 1.5 * s, 2. / 3 + 1.5 * s}, 1e-14);
}

TEST(ReplayAttack, DirectionsAreRowsOfTheirOwn) {
  Json rule = attack("min-max", 1);
  const Rows rows{{1, -4}, {2, -2}, {3, -3}};
  rule["attack.direction"] = "sign";
  const Json by_sign = round_of(rule, rows);
  const double gamma = by_sign["strength"];
  expect_near(by_sign["row"].get<Numbers>(), {2 - gamma, -3 + gamma}, 1e-14);
  rule["attack.direction"] = "std";
  const Json by_std = round_of(rule, rows);
  expect_near(by_std["row"].get<Numbers>(),
              {2 - by_std["strength"].get<double>(), -3 - by_std["strength"].get<double>()}, 1e-14);
}

// |F - h|^2 of what the rule makes of three honest rows and two of the attackers'.
double displacement(const std::string& rule, const Numbers& sent) {
  Rows all = kThree;
  all.insert(all.end(), 2, sent);
  Json told{{"aggregator.kind", rule}, {"aggregator.byzantine", 2}};
  Json round;
  if (rule == "trimmed-mean") {
    round["rows"] = all;
  } else {
    const Numbers entries = gram_of(all);
    for (std::size_t i = 0; i < 5; ++i) {
      round["gram"].push_back(Numbers(entries.begin() + 5 * i, entries.begin() + 5 * i + 5));
    }
  }
  const Json trace{{"rule", told}, {"rounds", {round}}};
  const Json found = Json::parse(replay(trace.dump())).at("rounds").at(0);
  Numbers step = rule == "trimmed-mean" ? found["update"].get<Numbers>()
                                        : combination(found["weights"].get<Numbers>(), all);
  double sum = 0;
  for (const double x : step) sum += (x - 2. / 3) * (x - 2. / 3);
  return sum;
}

TEST(ReplayAttack, OptimalAttacksMoveTheJobsRuleFarthest) {
  for (const std::string rule : {"trimmed-mean", "geometric-median"}) {
    for (const char* kind : {"optimal-alie", "optimal-ipm"}) {
      Json optimal = attack(kind, 2);
      optimal["aggregator.kind"] = rule;
      const Json found = round_of(optimal, kThree);
      const double best = displacement(rule, found["row"].get<Numbers>());
      for (const double strength : {0.5, 1.0, 2.0, 10.0}) {
        Json plain = attack(std::string(kind).substr(8), 2);
        plain["attack.strength"] = strength;
        const auto row = round_of(plain, kThree)["row"].get<Numbers>();
        // ByzFL's search is no more exact than its last step.
        EXPECT_GE(best, displacement(rule, row) * 0.8) << rule << " " << kind << " " << strength;
      }
    }
  }
}

TEST(ReplayAttack, NoiseIsOfTheRoundAndTheSeed) {
  Json rule = attack("gauss", 1);
  const auto noise = [&](int64_t seed) {
    rule["run.seed"] = seed;
    const Json trace{{"rule", rule}, {"rounds", {{{"rows", kThree}}, {{"rows", kThree}}}}};
    return Json::parse(replay(trace.dump())).at("rounds");
  };
  const Json one = noise(1);
  EXPECT_EQ(one, noise(1));
  EXPECT_NE(one[0], one[1]);
  EXPECT_NE(one[0], noise(2)[0]);
}

TEST(ReplayAttack, AttacksInTrainingHaveNoDecision) {
  expect_error<InvalidArgument>([] { round_of(attack("label-flip", 1), kThree); },
                                {"label-flip", "no decision to replay"});
  expect_error<InvalidArgument>(
      [] {
        round_of({{"attack.kind", "ipm"}}, kThree);
      },
      {"attack.byzantine"});
}

TEST(ReplayAttack, IsPure) {
  Json rule = attack("optimal-alie", 1);
  rule["aggregator.kind"] = "median";
  const Json trace{{"rule", rule}, {"rounds", {{{"rows", kThree}}}}};
  EXPECT_NE(check_replay(trace.dump()).find("attack.kind = optimal-alie is pure"),
            std::string::npos);
}

}  // namespace
}  // namespace hanse
