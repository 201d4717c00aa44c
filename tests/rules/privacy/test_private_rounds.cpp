#include <cmath>
#include <optional>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/private_rounds.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

PrivacyOptions central(std::optional<double> noise) {
  PrivacyOptions options;
  options.kind = "central";
  options.noise = noise;
  return options;
}

PrivacyTerms draws(Attendance attendance, int64_t per_round, int64_t clients) {
  return {.attendance = attendance, .clients = clients, .per_round = per_round, .n_params = 100};
}

PrivateRounds played(const PrivacyOptions& options, const PrivacyTerms& terms, int64_t rounds) {
  PrivateRounds run(options, terms, rounds);
  for (int64_t round = 0; round < rounds; ++round) run.finish();
  return run;
}

// The numbers are dp-accounting's, of integer orders alone.
TEST(PrivateRounds, PoissonRoundsCostWhatTheFieldsAccountantSays) {
  const PrivateRounds run = played(central(2), draws(Attendance::kPoisson, 100, 1000), 200);
  EXPECT_NEAR(run.cost().rdp.epsilon, 3.679746, 2e-5);
  EXPECT_GE(*run.cost().pld, 3.359661 - 1e-6);
  EXPECT_LT(*run.cost().pld, 3.37);
  EXPECT_FALSE(run.cost().zcdp);
}

TEST(PrivateRounds, ADrawOfAFixedNumberIsAmplifiedForReplacedClientsAloneAtTwiceTheClip) {
  PrivacyOptions options = central(2);
  options.adjacency = Adjacency::kReplace;
  const PrivateRounds run = played(options, draws(Attendance::kUniform, 10, 100), 200);
  EXPECT_NEAR(run.cost().rdp.epsilon, 20.714, 0.05);
  options.adjacency = Adjacency::kZeroOut;
  const PrivateRounds plain = played(options, draws(Attendance::kUniform, 10, 100), 200);
  EXPECT_NEAR(*plain.cost().zcdp,
              played(options, draws(Attendance::kFull, 10, 100), 200).cost().zcdp.value(), 1e-12);
}

TEST(PrivateRounds, TheFoundNoiseMeetsEpsilonAndNoLessDoes) {
  for (const auto correlation : {Correlation::kNone, Correlation::kTree, Correlation::kToeplitz}) {
    PrivacyOptions options = central(std::nullopt);
    options.epsilon = 3;
    options.correlation = correlation;
    const PrivacyTerms terms = draws(Attendance::kCyclic, 10, 160);
    const PrivateRounds found(options, terms, 20);
    EXPECT_LE(played(options, terms, 20).epsilon(), 3);
    options.noise = found.multiplier() * (1 - 0x1p-18);
    EXPECT_GT(played(options, terms, 20).epsilon(), 3);
  }
}

TEST(PrivateRounds, UpdatesAndTheCountOfAnAdaptiveClipCostTogetherWhatTheMultiplierSays) {
  PrivacyOptions options = central(1);
  options.accountant = AccountantKind::kRdp;
  const PrivacyTerms terms = draws(Attendance::kPoisson, 100, 1000);
  const double fixed = played(options, terms, 50).epsilon();
  options.clip_kind = ClipKind::kAdaptive;
  const PrivateRounds adaptive = played(options, terms, 50);
  EXPECT_NEAR(adaptive.update_multiplier(), 1.005037815259212, 1e-12);
  EXPECT_NEAR(adaptive.epsilon(), fixed, 1e-6);
  // By pld the count's variance of 100 counts as 96.
  options.accountant = AccountantKind::kPld;
  const double by_pld = played(options, terms, 50).epsilon();
  options.clip_kind = ClipKind::kFixed;
  EXPECT_LT(by_pld, played(options, terms, 50).epsilon() * 1.001);
  EXPECT_EQ(adaptive.next().count_variance, 100);
}

// Distributed mean estimation (Kairouz, Liu and Steinke 2021): 100 clients, vectors of length 10,
// one round, delta 1e-5. By pld it is the analytic Gaussian's noise.
TEST(PrivateRounds, TheNoiseOfOneRoundHasItsClosedForm) {
  const double by_zcdp[] = {40.4513, 21.4911, 11.5757, 8.1399};
  const double by_pld[] = {0.139176, 0.039753, 0.011689, 0.005831};  // squared, of the mean
  const double epsilons[] = {1, 2, 4, 6};
  for (std::size_t i = 0; i < 4; ++i) {
    PrivacyOptions options = central(std::nullopt);
    options.clip = 10;
    options.epsilon = epsilons[i];
    options.accountant = AccountantKind::kZcdp;
    const PrivacyTerms terms = draws(Attendance::kFull, 100, 100);
    EXPECT_NEAR(PrivateRounds(options, terms, 1).next().deviation, by_zcdp[i], 5e-5);
    options.accountant = AccountantKind::kPld;
    const double of_mean = PrivateRounds(options, terms, 1).next().deviation / 100;
    EXPECT_NEAR(of_mean * of_mean, by_pld[i], 2e-6);
  }
}

TEST(PrivateRounds, SkellamNoiseIsFoundAmongThatWhichItsStepAllows) {
  PrivacyOptions options = central(std::nullopt);
  options.mechanism = Mechanism::kSkellam;
  options.epsilon = 4;
  options.step.exponent = -5;
  const PrivateRounds run = played(options, draws(Attendance::kFull, 10, 10), 3);
  EXPECT_LE(run.epsilon(), 4);
  EXPECT_GT(run.epsilon(), 3.99);
}

TEST(PrivateRounds, TheFoundNoiseOfAnAdaptiveClipPaysForTheCount) {
  PrivacyOptions options = central(std::nullopt);
  options.epsilon = 8;
  options.clip_kind = ClipKind::kAdaptive;
  const PrivacyTerms terms = draws(Attendance::kPoisson, 50, 1000);
  const PrivateRounds run = played(options, terms, 200);
  EXPECT_LE(run.epsilon(), 8);
  EXPECT_GT(run.epsilon(), 7.99);
  options.count_noise = 0.1;
  expect_error<InvalidArgument>(
      [&] { PrivateRounds(options, draws(Attendance::kFull, 50, 50), 200); },
      {"privacy.count-noise"});
}

TEST(PrivateRounds, TheClipFollowsTheNoisedCountAndStaysWhereTheSumCanHoldIt) {
  PrivacyOptions options = central(1);
  options.clip_kind = ClipKind::kAdaptive;
  options.count_noise = 5;
  PrivateRounds run(options, draws(Attendance::kFull, 100, 100), 10);
  run.finish(100);  // all are within the clip
  EXPECT_NEAR(run.next().clip, std::exp(-0.2 * 0.5), 1e-12);
  for (int round = 0; round < 1000; ++round) run.finish(-100);
  EXPECT_LT(run.next().clip * (100 + 40 * run.update_multiplier()), 0x1p18);
  EXPECT_GT(run.next().clip, 100);
}

TEST(PrivateRounds, RoundsAlikeCostWhatTheyCostOneByOne) {
  for (const Attendance attendance : {Attendance::kPoisson, Attendance::kFull}) {
    const PrivacyTerms terms = draws(attendance, 10, 100);
    PrivateRounds alike(central(1), terms, 300);
    alike.finish_alike(300);
    const PrivateRounds one_by_one = played(central(1), terms, 300);
    EXPECT_NEAR(alike.epsilon(), one_by_one.epsilon(), 1e-9);
    EXPECT_EQ(alike.cost().pld, one_by_one.cost().pld);
    EXPECT_EQ(alike.finished(), 300);
    EXPECT_EQ(PrivateRounds(central(1), terms, 300).epsilon_after(300), alike.epsilon());
  }
}

// The shares of a round are always all there: what they cost does not hang on who came.
TEST(PrivateRounds, SharesCostWhatCentralNoiseCosts) {
  PrivacyOptions options = central(1);
  const PrivacyTerms terms = draws(Attendance::kPoisson, 10, 100);
  const PrivateRounds whole = played(options, terms, 10);
  options.kind = "distributed";
  for (const double honest : {1.0, 0.7, 0.25}) {
    options.honest = honest;
    const PrivateRounds shares = played(options, terms, 10);
    EXPECT_EQ(shares.epsilon(), whole.epsilon());
    EXPECT_EQ(shares.cost().pld, whole.cost().pld);
    // floor(honest x 10) shares make the noise, and all ten are added.
    const PrivateRound round = shares.next();
    EXPECT_EQ(shares.honest_shares(), static_cast<int64_t>(honest * 10 + 1e-9));
    EXPECT_GE(round.share_variance * shares.honest_shares(), round.variance);
    EXPECT_LT(round.share_variance * (shares.honest_shares() - 1), round.variance);
    EXPECT_NEAR(round.deviation, std::sqrt(10.0 / static_cast<double>(shares.honest_shares())),
                1e-5);
  }
}

// The server knows the draw: a client in three rounds has three releases of the clip over z.
TEST(PrivateRounds, TheServerSeesRoundsWithoutAmplification) {
  PrivacyOptions options = central(2);
  options.kind = "distributed";
  options.accountant = AccountantKind::kZcdp;
  options.mechanism = Mechanism::kDiscreteGaussian;
  const PrivateRounds rounds(options, draws(Attendance::kUniform, 10, 100), 50);
  EXPECT_NEAR(rounds.epsilon_of_server(3), epsilon_of_zcdp(3.0 / 8, 1e-5).epsilon, 1e-4);
}

TEST(PrivateRounds, TheRunHasALimitWhereItsNoiseWasFoundForOne) {
  PrivacyOptions options = central(1);
  EXPECT_EQ(PrivateRounds(options, draws(Attendance::kPoisson, 10, 100), 10).limit(), 0);
  options.noise = std::nullopt;
  options.epsilon = 4;
  options.count_noise = 20;
  for (const ClipKind clip : {ClipKind::kFixed, ClipKind::kAdaptive}) {
    options.clip_kind = clip;
    PrivateRounds run(options, draws(Attendance::kPoisson, 10, 100), 1000);
    EXPECT_EQ(run.limit(), 4);
    for (int64_t round = 0; round < 1000; ++round) {
      ASSERT_LE(run.epsilon_at_most(1), 4) << round;
      run.finish(round % 7 - 3);
    }
    EXPECT_GT(run.epsilon_at_most(1), 4);
    EXPECT_GT(run.epsilon(), 3.999);
  }
  options.max_epsilon = 6;
  EXPECT_EQ(PrivateRounds(options, draws(Attendance::kPoisson, 10, 100), 10).limit(), 6);
}

// What a row says of a round holds, and is what few more rounds would cost.
TEST(PrivateRounds, ARowHasAnEpsilonThatHolds) {
  for (const AccountantKind kind : {AccountantKind::kAuto, AccountantKind::kPld}) {
    PrivacyOptions options = central(1.2);
    options.accountant = kind;
    const PrivacyTerms terms = draws(Attendance::kPoisson, 10, 100);
    PrivateRounds run(options, terms, 10), twice(options, terms, 100);
    for (int64_t round = 1; round <= 100; ++round) {
      run.finish();
      twice.finish();
      const double row = run.epsilon_at_most(0);
      EXPECT_EQ(row, twice.epsilon_at_most(0)) << round;  // however many are planned
      if (round % 13 != 0) continue;
      EXPECT_GE(row, run.epsilon()) << round;
      EXPECT_LT(row, run.epsilon() * 1.03) << round;
    }
  }
}

// Skellam's bound takes the L1 length of all that a client moves, by hand: 15 nodes of 2 entries, a
// step each, and variance 16.
TEST(PrivateRounds, SkellamNoiseOfATreeCountsItsNodes) {
  PrivacyOptions options = central(1);
  options.mechanism = Mechanism::kSkellam;
  options.step.exponent = 0;
  options.correlation = Correlation::kTree;
  PrivacyTerms terms = draws(Attendance::kCyclic, 6, 100);
  terms.n_params = 2;
  const PrivateRounds run = played(options, terms, 34);
  EXPECT_EQ(run.correlated().sensitivity_squared(34), 15);
  EXPECT_EQ(run.correlated().moved_sums(34), 15);
  const auto variance =
      static_cast<double>(PrivateRounds(options, terms, 34).next().variance);
  const auto at = skellam_renyi(std::sqrt(15), variance, 30);
  EXPECT_NEAR(run.epsilon(), epsilon_of(renyi_curve(at), 1e-5).epsilon, 1e-12);
  options.correlation = Correlation::kBanded;
  options.bands = 4;
  EXPECT_EQ(CorrelatedNoise(options, terms, 34).moved_sums(34), 3 * 4);
  options.correlation = Correlation::kToeplitz;
  EXPECT_EQ(CorrelatedNoise(options, terms, 34).moved_sums(34), 34);
}

// Kairouz et al. 2021b; dp-accounting's SingleEpochTreeAggregationDpEvent(2, 16) has noise of 2 a
// node, so that all five nodes of a round are one release with noise of 2 / sqrt(5).
TEST(PrivateRounds, ATreeOfSixteenRoundsCostsWhatTheFieldsAccountantSays) {
  PrivacyOptions options = central(2 / std::sqrt(5));
  options.correlation = Correlation::kTree;
  const PrivateRounds run = played(options, draws(Attendance::kCyclic, 10, 160), 16);
  EXPECT_NEAR(run.cost().rdp.epsilon, 5.377728, 0.02);
  EXPECT_LE(*run.cost().zcdp, run.cost().rdp.epsilon);
}

TEST(PrivateRounds, CorrelatedNoiseIsAsPrivateAsOneReleaseWhateverTheRounds) {
  const PrivacyTerms terms = draws(Attendance::kCyclic, 20, 100);  // separation 5
  for (const auto correlation : {Correlation::kToeplitz, Correlation::kBanded}) {
    PrivacyOptions options = central(1.5);
    options.correlation = correlation;
    options.bands = 4;
    const PrivateRounds run = played(options, terms, 15);
    EXPECT_NEAR(*run.cost().zcdp, epsilon_of_zcdp(1 / (2 * 1.5 * 1.5), 1e-5).epsilon, 1e-4);
  }
}

TEST(PrivateRounds, WhatDoesNotFitTogetherIsRefused) {
  PrivacyOptions options = central(1);
  options.adjacency = Adjacency::kAddRemove;
  expect_error<InvalidArgument>(
      [&] { PrivateRounds(options, draws(Attendance::kUniform, 10, 100), 10); },
      {"privacy.adjacency"});
  options = central(1);
  options.correlation = Correlation::kBanded;
  expect_error<InvalidArgument>(
      [&] { PrivateRounds(options, draws(Attendance::kCyclic, 50, 100), 10); }, {"privacy.bands"});
  expect_error<InvalidArgument>(
      [&] { PrivateRounds(options, draws(Attendance::kPoisson, 10, 100), 10); }, {"sampler.kind"});
  options.correlation = Correlation::kTree;
  expect_error<InvalidArgument>(
      [&] { PrivateRounds(options, draws(Attendance::kFull, 100, 100), 10); }, {"cyclic"});
  options.correlation = Correlation::kToeplitz;
  options.separation = 3;
  expect_error<InvalidArgument>(
      [&] { PrivateRounds(options, draws(Attendance::kCyclic, 50, 100), 10); },
      {"privacy.separation"});
  options = central(std::nullopt);
  expect_error<InvalidArgument>(
      [&] { PrivateRounds(options, draws(Attendance::kFull, 10, 10), 10); }, {"privacy.epsilon"});
  options = central(0x1p20);
  expect_error<InvalidArgument>(
      [&] { PrivateRounds(options, draws(Attendance::kFull, 10, 10), 10); }, {"privacy.clip"});
}

TEST(PrivateRounds, AStateGoesOn) {
  PrivacyOptions options = central(1);
  options.clip_kind = ClipKind::kAdaptive;
  const PrivacyTerms terms = draws(Attendance::kPoisson, 100, 1000);
  PrivateRounds whole(options, terms, 10), first(options, terms, 10), second(options, terms, 20);
  for (int round = 0; round < 6; ++round) whole.finish(10 * round);
  for (int round = 0; round < 3; ++round) first.finish(10 * round);
  State state;
  first.save(state);
  second.load(state);
  for (int round = 3; round < 6; ++round) second.finish(10 * round);
  EXPECT_EQ(whole.next().clip, second.next().clip);
  EXPECT_EQ(whole.epsilon(), second.epsilon());
  EXPECT_EQ(second.position().planned, 10);
}

}  // namespace
}  // namespace hanse
