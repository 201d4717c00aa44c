// Who attacks, and what attackers decide.
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/attack/attack.hpp"
#include "rules/aggregation/rows.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;

AttackOptions of(const std::string& clients, bool idle = false) {
  AttackOptions options{.kind = "ipm", .clients = AttackingClients::parse(clients), .idle = idle};
  return options;
}

TEST(AttackingClients, AreANumberAShareOrIds) {
  for (const char* text : {"0", "3", "0.25", "7,", "1,4,9"}) {
    EXPECT_EQ(AttackingClients::parse(text).text(), text);
  }
  EXPECT_EQ(AttackingClients::parse(" 9, 1 ,4").text(), "1,4,9");
  for (const char* text : {"", "-1", "2.5", "nan", "some", ",", "1,2.5", "1,-2"}) {
    expect_error<InvalidArgument>([&] { AttackingClients::parse(text); }, {"names no clients"});
  }
  expect_error<InvalidArgument>([] { AttackingClients::parse("2,2"); }, {"a client twice"});
}

TEST(AttackingClients, AreFixedByTheSeed) {
  EXPECT_EQ(attacking_clients(of("5,2,"), 6, 1), (Ids{2, 5}));
  EXPECT_EQ(attacking_clients(of("3", true), 8, 1), (Ids{5, 6, 7}));
  EXPECT_EQ(attacking_clients(of("0.2"), 60, 1).size(), 12U);  // 0.2 x 60 is 12.000000000000002
  EXPECT_EQ(attacking_clients(of("0.21"), 60, 1).size(), 13U);
  EXPECT_TRUE(attacking_clients(of("0"), 60, 1).empty());
  std::set<Ids> found;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Ids ids = attacking_clients(of("4"), 30, seed);
    EXPECT_EQ(ids, attacking_clients(of("4"), 30, seed));
    EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), 4U);
    EXPECT_TRUE(std::ranges::is_sorted(ids));
    EXPECT_TRUE(ids.front() >= 0 && ids.back() < 30);
    found.insert(ids);
  }
  EXPECT_GT(found.size(), 15U);
}

TEST(AttackingClients, LeaveSomebodyHonest) {
  expect_error<InvalidArgument>([] { attacking_clients(of("4"), 4, 1); },
                                {"4 of 4 clients attack", "(attack.clients)"});
  expect_error<InvalidArgument>([] { attacking_clients(of("1,4"), 4, 1); },
                                {"no client 4 among 4"});
}

TEST(AttackOptions, AttackInTheirRounds) {
  AttackOptions options;
  EXPECT_TRUE(options.attacks_in(1) && options.attacks_in(1000));
  options.first_round = 3;
  options.last_round = 4;
  for (int64_t round = 1; round <= 6; ++round) {
    EXPECT_EQ(options.attacks_in(round), round == 3 || round == 4);
  }
}

// Rows (0, 0), (2, 0), (0, 2), their mean and a third row.
Rows told(const Numbers& third) { return {{0, 0}, {2, 0}, {0, 2}, {2. / 3, 2. / 3}, third}; }

Numbers sent(AttackForm form, const AttackOptions& options, const Numbers& third,
             std::size_t byzantine = 1) {
  const Rows rows = told(third);
  const Numbers entries = gram_of(rows);
  const AttackRow row = make_attack(form, options)
                            ->decide({.honest = 3, .byzantine = byzantine, .gram = {entries, 5}});
  return combination(row.coefficients, rows);
}

TEST(Attacks, DecideByTheirStrengthAndDirection) {
  AttackOptions two{.strength = 2};
  expect_near(sent(AttackForm::kIpm, two, {9, 9}), {-4. / 3, -4. / 3}, 1e-15);
  expect_near(sent(AttackForm::kSignFlip, {.strength = 1}, {9, 9}), {-2. / 3, -2. / 3}, 1e-15);
  expect_near(sent(AttackForm::kAlie, two, {1, 3}), {2 + 2. / 3, 6 + 2. / 3}, 1e-14);
  expect_near(sent(AttackForm::kMimic, two, {9, 9}), {0, 0}, 0);
  expect_near(sent(AttackForm::kGauss, two, {0.5, -3}), {1, -6}, 1e-15);
  EXPECT_TRUE(std::isnan(sent(AttackForm::kNan, two, {0, 0})[1]));
  // auto: m = floor(5/2) + 1 - 2 = 1, z = Phi^-1(2/3)
  expect_near(sent(AttackForm::kAlie, {.strength = 0}, {1, 0}, 2),
              {2. / 3 + 0.43072729929545756, 2. / 3}, 1e-12);
  const double gamma = 1.978085221992147;  // along the diagonal
  const double x = 2. / 3 - gamma / std::sqrt(2.0);
  expect_near(sent(AttackForm::kMinMax, {.direction = Perturbation::kUnit}, {9, 9}), {x, x}, 1e-12);
  expect_near(sent(AttackForm::kMinMax, {.direction = Perturbation::kSign}, {1, 1}), {x, x}, 1e-12);
  EXPECT_NE(sent(AttackForm::kMinMax, {.direction = Perturbation::kStd}, {1, 0}), (Numbers{x, x}));
}

TEST(Attacks, SearchForTheStrengthThatMovesTheRuleFarthest) {
  const AttackRound round{
      .honest = 3, .byzantine = 1, .displacement = [](std::span<const double> row) {
        return -std::abs(row[3] + 2);  // largest for -2 h
      }};
  // Steps of 10, 8, ... from 0: the first that is better than 0 is 10 x 0.8^5, and none is beyond.
  EXPECT_NEAR(make_attack(AttackForm::kOptimalIpm, {})->decide(round).strength, 3.2768, 1e-12);
}

}  // namespace
}  // namespace hanse
