// What runs cost in privacy, by neighbours and samplers.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr int64_t kBound = int64_t{1} << 20;

RoundNoise noise(double multiplier) {
  const double deviation = multiplier * static_cast<double>(kBound);
  return {kBound, static_cast<int64_t>(std::ceil(deviation * deviation)), 1};
}

PrivacyAccountant spent(const PrivacyTerms& terms, double multiplier, int64_t rounds) {
  PrivacyAccountant accountant(terms);
  accountant.spend(noise(multiplier), rounds);
  return accountant;
}

TEST(Accountant, AmplifiesPoissonDraws) {
  const PrivacyTerms terms{
      .attendance = Attendance::kPoisson, .clients = 1000, .per_round = 10, .n_params = 100};
  const auto accountant = spent(terms, 1, 1000);
  EXPECT_NEAR(accountant.rdp(1e-5).epsilon, 2.101365, 1e-6);
  EXPECT_NEAR(accountant.pld(1e-5).value(), 1.828244, 1e-5);
  EXPECT_FALSE(accountant.zcdp(1e-5));
}

TEST(Accountant, AmplifiesFixedSizesAtTwiceTheClipWhenAClientIsReplaced) {
  const PrivacyTerms terms{.adjacency = Adjacency::kReplace,
                           .attendance = Attendance::kUniform,
                           .clients = 100,
                           .per_round = 10};
  const auto accountant = spent(terms, 2, 200);
  EXPECT_NEAR(accountant.rdp(1e-5).epsilon, 20.714, 1e-3);
  EXPECT_FALSE(accountant.pld(1e-5) || accountant.zcdp(1e-5));
}

TEST(Accountant, DoesNotAmplifyFixedSizesAndTurns) {
  for (const auto attendance : {Attendance::kFull, Attendance::kUniform}) {
    const PrivacyTerms terms{.attendance = attendance, .clients = 100, .per_round = 10};
    EXPECT_NEAR(spent(terms, 1, 1).rdp(1e-5).epsilon, 4.728507, 1e-6);
    EXPECT_NEAR(spent(terms, 10, 100).rdp(1e-5).epsilon, 4.728507, 1e-6);
    EXPECT_NEAR(spent(terms, 10, 100).pld(1e-5).value(), 4.377178, 1e-4);
    EXPECT_LE(spent(terms, 10, 100).zcdp(1e-5).value(), 4.728507);
  }
}

TEST(Accountant, CountsTheTurnsOfAClient) {
  const PrivacyTerms terms{.attendance = Attendance::kCyclic, .clients = 25, .per_round = 10};
  EXPECT_EQ(terms.participations(0), 0);
  EXPECT_EQ(terms.participations(2), 1);
  EXPECT_EQ(terms.participations(3), 2);  // 30 turns of 25 clients
  EXPECT_EQ(terms.participations(5), 2);
  const PrivacyTerms full{.clients = 25, .per_round = 25};
  PrivacyAccountant turns(terms);
  for (int64_t round = 1; round <= 5; ++round) turns.spend(noise(2));
  EXPECT_EQ(turns.rdp(1e-5).epsilon, spent(full, 2, 2).rdp(1e-5).epsilon);
  EXPECT_EQ(turns.zcdp(1e-5), spent(full, 2, 2).zcdp(1e-5));
  EXPECT_EQ(turns.pld(1e-5), spent(full, 2, 2).pld(1e-5));
  turns.spend(noise(1));  // the worst round counts for every turn
  EXPECT_EQ(turns.rdp(1e-5).epsilon, spent(full, 1, 3).rdp(1e-5).epsilon);
}

TEST(Accountant, AReplacedClientMovesTheSumTwiceAsFar) {
  const PrivacyTerms full, replaced{.adjacency = Adjacency::kReplace};
  EXPECT_NEAR(spent(replaced, 2, 7).rdp(1e-5).epsilon, spent(full, 1, 7).rdp(1e-5).epsilon, 1e-9);
}

// Shares that are not coarse make a discrete Gaussian but for 2^-100.
TEST(Accountant, SharesCostWhatOneDrawOfTheWholeNoiseCosts) {
  for (const Attendance attendance : {Attendance::kFull, Attendance::kPoisson}) {
    const PrivacyTerms terms{
        .attendance = attendance, .clients = 100, .per_round = 10, .n_params = 1000};
    PrivacyAccountant shares(terms);
    shares.spend({kBound, kBound * kBound, 64, kBound * (kBound / 64)}, 3);
    EXPECT_EQ(shares.rdp(1e-5).epsilon, spent(terms, 1, 3).rdp(1e-5).epsilon);
    EXPECT_EQ(shares.pld(1e-5), spent(terms, 1, 3).pld(1e-5));
    EXPECT_EQ(shares.zcdp(1e-5), spent(terms, 1, 3).zcdp(1e-5));
  }
}

TEST(Accountant, SkellamAndCoarseSharesHaveNoGaussianBound) {
  PrivacyAccountant skellam({.mechanism = Mechanism::kSkellam, .n_params = 100});
  skellam.spend({10, 400, 1});
  EXPECT_EQ(skellam.rdp(1e-5).epsilon,
            epsilon_of(renyi_curve(skellam_renyi(10, 400, 100)), 1e-5).epsilon);
  EXPECT_FALSE(skellam.zcdp(1e-5) || skellam.pld(1e-5));
  expect_error<InvalidArgument>([&] { skellam.epsilon(AccountantKind::kZcdp, 1e-5); },
                                {"zcdp does not apply", "rdp always does"});
  EXPECT_EQ(skellam.epsilon(AccountantKind::kRdp, 1e-5), skellam.rdp(1e-5).epsilon);
  PrivacyAccountant coarse({.n_params = 100});
  coarse.spend({10, 400, 10, 40});
  EXPECT_TRUE(coarse.zcdp(1e-5));
  coarse.spend({1, 40, 10, 4});
  EXPECT_FALSE(coarse.zcdp(1e-5) || coarse.pld(1e-5));
}

TEST(Accountant, AutoIsTheLeastOfThoseThatApply) {
  const auto least = [](const PrivacyTerms& terms, double z, int64_t rounds) {
    const auto accountant = spent(terms, z, rounds);
    const PrivacyCost cost{accountant.rdp(1e-7), accountant.zcdp(1e-7), accountant.pld(1e-7)};
    const double found = accountant.epsilon(AccountantKind::kAuto, 1e-7);
    EXPECT_EQ(found, cost.epsilon(cost.best()));
    EXPECT_LE(found, cost.rdp.epsilon);
    EXPECT_LE(found, std::min(cost.zcdp.value_or(1e9), cost.pld.value_or(1e9)));
    return cost.best();
  };
  const PrivacyTerms poisson{
      .attendance = Attendance::kPoisson, .clients = 1000, .per_round = 10, .n_params = 100};
  EXPECT_EQ(least(poisson, 1, 100), AccountantKind::kPld);
  EXPECT_EQ(least({}, 1, 1), AccountantKind::kPld);  // its closed form
  EXPECT_EQ(least({.adjacency = Adjacency::kReplace,
                   .attendance = Attendance::kUniform,
                   .clients = 100,
                   .per_round = 10},
                  2, 200),
            AccountantKind::kRdp);
  EXPECT_EQ(PrivacyCost({.rdp = {2, 3}, .zcdp = 1}).best(), AccountantKind::kZcdp);
}

// The noise on a count of variance 25 costs what its variance less 4 would.
TEST(Accountant, NoiseOnSumAndCountIsOneGaussian) {
  const PrivacyTerms terms{
      .attendance = Attendance::kPoisson, .clients = 1000, .per_round = 50, .n_params = 100};
  RoundNoise both = noise(1.2);
  both.count_variance = 25;
  PrivacyAccountant accountant(terms);
  accountant.spend(both, 200);
  const double joint = 1 / std::sqrt(1 / 1.44 + 1.0 / 21);
  EXPECT_NEAR(accountant.pld(1e-5).value(), spent(terms, joint, 200).pld(1e-5).value(), 1e-5);
}

TEST(Accountant, LessNoiseIsFoundByFewQuestions) {
  const PrivacyTerms terms{.attendance = Attendance::kPoisson, .clients = 1000, .per_round = 20};
  int asked = 0;
  const auto epsilon = [&](double z) {
    ++asked;
    return spent(terms, z, 100).epsilon(AccountantKind::kPld, 1e-5);
  };
  const double z = less_noise(2, epsilon, 1.05);
  EXPECT_LE(asked, 20);
  EXPECT_LE(epsilon(z), 2);
  EXPECT_GT(epsilon(z * (1 - 4e-5)), 2);
  EXPECT_EQ(less_noise(
                2, [](double x) { return x < 3 ? 9.0 : 2.0; }, 3),
            3);
}

TEST(Accountant, NoNoiseIsNoPrivacyAndNoRoundsCostNothing) {
  EXPECT_TRUE(std::isinf(spent({}, 0, 1).rdp(1e-5).epsilon));
  EXPECT_EQ(PrivacyAccountant({}).rdp(1e-5).epsilon, 0);
  EXPECT_EQ(PrivacyAccountant({}).zcdp(1e-5), 0);
  EXPECT_EQ(PrivacyAccountant({}).pld(1e-5), 0);
}

TEST(Accountant, RoundsAddUpOneByOneAndAfterAResume) {
  const PrivacyTerms terms{.attendance = Attendance::kPoisson, .clients = 100, .per_round = 10};
  PrivacyAccountant first(terms);
  first.spend(noise(2), 3);
  first.spend(noise(1));
  State state;
  first.save(state);
  PrivacyAccountant second(terms);
  second.load(state);
  first.spend(noise(2), 2);
  second.spend(noise(2), 2);
  EXPECT_EQ(first.rdp(1e-6).epsilon, second.rdp(1e-6).epsilon);
  EXPECT_EQ(first.pld(1e-6), second.pld(1e-6));
  EXPECT_EQ(second.rounds(), 6);
  PrivacyAccountant sorted(terms);
  sorted.spend(noise(1));
  sorted.spend(noise(2), 5);
  EXPECT_NEAR(first.rdp(1e-6).epsilon, sorted.rdp(1e-6).epsilon, 1e-12);
}

TEST(Accountant, RefusesPairsWithoutATheorem) {
  const auto check = [](Adjacency adjacency, Attendance attendance) {
    PrivacyTerms{.adjacency = adjacency, .attendance = attendance}.check();
  };
  for (const auto attendance :
       {Attendance::kFull, Attendance::kUniform, Attendance::kCyclic, Attendance::kPoisson}) {
    check(Adjacency::kZeroOut, attendance);
    if (attendance != Attendance::kPoisson) {
      expect_error<InvalidArgument>([&] { check(Adjacency::kAddRemove, attendance); },
                                    {"add-remove", "poisson"});
    }
  }
  check(Adjacency::kAddRemove, Attendance::kPoisson);
  check(Adjacency::kReplace, Attendance::kUniform);
  check(Adjacency::kReplace, Attendance::kFull);
  for (const auto attendance : {Attendance::kCyclic, Attendance::kPoisson}) {
    expect_error<InvalidArgument>([&] { check(Adjacency::kReplace, attendance); },
                                  {"replace", "uniform and full"});
  }
}

TEST(Accountant, APoissonRateIsDyadicAndJustAbove) {
  EXPECT_EQ(poisson_threshold(1, 2), int64_t{1} << 52);
  EXPECT_EQ(poisson_threshold(1, 3), 3002399751580331);
  EXPECT_EQ(poisson_threshold(3, 3), int64_t{1} << 53);
  const PrivacyTerms terms{.attendance = Attendance::kPoisson, .clients = 3, .per_round = 1};
  EXPECT_EQ(terms.rate(), 3002399751580331 * 0x1p-53);
}

TEST(Accountant, TheLeastNoiseMeetsEpsilonAndLessDoesNot) {
  const PrivacyTerms poisson{.attendance = Attendance::kPoisson, .clients = 100, .per_round = 10};
  for (const PrivacyTerms& terms : {poisson, PrivacyTerms{}}) {
    for (const double epsilon : {0.5, 2.0, 8.0}) {
      const auto of = [&](double z) {
        PrivacyAccountant accountant(terms);
        accountant.spend(noise(z), 20);
        return accountant.rdp(1e-5).epsilon;
      };
      const double z = least_noise(epsilon, of);
      EXPECT_LE(of(z), epsilon);
      EXPECT_GT(of(z - 0x1p-20), epsilon);
    }
  }
  expect_error<InvalidArgument>([] { least_noise(1, [](double) { return 2; }); },
                                {"no noise up to 1024 meets an epsilon of 1"});
  EXPECT_EQ(least_noise(3, [](double) { return 2; }), 0x1p-10);
}

}  // namespace
}  // namespace hanse
