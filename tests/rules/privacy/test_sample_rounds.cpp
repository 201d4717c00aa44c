// What private steps cost: numbers of others, the weakest client, and noise that meets an epsilon.
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/sample_rounds.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

PrivacyOptions options_with(std::optional<double> noise, double epsilon = 0) {
  PrivacyOptions options;
  options.kind = "central";
  options.unit = PrivacyUnit::kSample;
  options.noise = noise;
  options.epsilon = epsilon;
  return options;
}

void take_part(SampleRounds& rounds, int64_t client, int64_t times) {
  for (int64_t t = 0; t < times; ++t) rounds.take_part(std::array{client});
}

// dp-accounting 0.6.0, delta 1e-5: 2.107753 at whole orders, by losses 1.828244.
TEST(SampleRounds, CostWhatAmplifiedStepsCost) {
  SampleRounds rounds(options_with(1), {.clients = {{1000, 10, 100}}, .rounds = 10, .n_params = 5});
  EXPECT_EQ(rounds.epsilon(), 0);
  EXPECT_NEAR(rounds.epsilon_after(10), 1.828244, 1e-3);
  take_part(rounds, 0, 10);
  const PrivacyCost cost = rounds.cost();
  EXPECT_LT(cost.rdp.epsilon, 2.107753);  // at an order between two whole ones
  EXPECT_GT(cost.rdp.epsilon, 2.107753 - 0.01);
  EXPECT_FALSE(cost.zcdp);
  EXPECT_NEAR(cost.pld.value(), 1.828244, 1e-3);
  EXPECT_EQ(cost.pld.value(), rounds.epsilon());
}

TEST(SampleRounds, OfAllSamplesHaveNoAmplification) {
  SampleRounds rounds(options_with(1), {.clients = {{30, 30, 1}}, .rounds = 1, .n_params = 5});
  take_part(rounds, 0, 1);
  EXPECT_NEAR(rounds.epsilon(), 4.377178, 1e-3);  // of one Gaussian, exactly
  EXPECT_NEAR(rounds.cost().zcdp.value(), 4.728507, 1e-3);
}

TEST(SampleRounds, TheClientThatCostsMostCounts) {
  const std::vector<ClientSteps> clients{
      {1000, 10, 100}, {100, 10, 10}, {0, 0, 0}, {1000, 10, 100}};
  SampleRounds all(options_with(1), {.clients = clients, .rounds = 5, .n_params = 5});
  SampleRounds small(options_with(1), {.clients = {{100, 10, 10}}, .rounds = 5, .n_params = 5});
  take_part(small, 0, 3);
  all.take_part(std::array<int64_t, 4>{0, 1, 2, 3});
  take_part(all, 1, 2);
  EXPECT_EQ(all.epsilon(), small.epsilon());
  EXPECT_EQ(all.weakest(), clients[1]);
  // Clients that do the same: the one that was in most rounds counts, not their sum.
  SampleRounds large(options_with(1), {.clients = {clients[0]}, .rounds = 5, .n_params = 5});
  take_part(large, 0, 100);
  take_part(all, 0, 99);
  take_part(all, 3, 99);
  EXPECT_EQ(all.epsilon(), large.epsilon());
  EXPECT_EQ(all.weakest(), clients[0]);
  EXPECT_EQ(all.cost().rdp.epsilon, large.cost().rdp.epsilon);
  EXPECT_EQ(all.cost().pld, large.cost().pld);
}

TEST(SampleRounds, NoiseMeetsAnEpsilonForTheWeakestClient) {
  const SampleTerms terms{.clients = {{1000, 10, 100}, {120, 10, 12}}, .rounds = 20, .n_params = 5};
  SampleRounds found(options_with(std::nullopt, 4), terms);
  found.take_part_in(20);
  EXPECT_LE(found.epsilon(), 4);
  SampleRounds less(options_with(found.multiplier() * (1 - 1e-6)), terms);
  less.take_part_in(20);
  EXPECT_GT(less.epsilon(), 4);
  EXPECT_EQ(found.limit(), 4);
  EXPECT_EQ(less.limit(), 0);
}

TEST(SampleRounds, ASavedOneGoesOn) {
  const SampleTerms terms{.clients = {{100, 10, 10}, {50, 10, 5}}, .rounds = 8, .n_params = 5};
  SampleRounds saved(options_with(std::nullopt, 4), terms);
  take_part(saved, 1, 3);
  SampleTerms longer = terms;
  longer.rounds = 16;
  SampleRounds loaded(options_with(std::nullopt, 4), longer);
  EXPECT_NE(loaded.multiplier(), saved.multiplier());
  State state;
  saved.save(state);
  loaded.load(state);
  EXPECT_EQ(loaded.multiplier(), saved.multiplier());
  EXPECT_EQ(loaded.epsilon(), saved.epsilon());
  take_part(saved, 0, 1);
  take_part(loaded, 0, 1);
  EXPECT_EQ(loaded.epsilon_after(2), saved.epsilon_after(2));
}

TEST(SampleRounds, AnAccountantMustApply) {
  PrivacyOptions options = options_with(1);
  options.accountant = AccountantKind::kZcdp;
  expect_error<InvalidArgument>(
      [&] {
        SampleRounds(options, {.clients = {{1000, 10, 100}}, .rounds = 1, .n_params = 5});
      },
      {"zcdp does not apply", "privacy.accountant"});
  expect_error<InvalidArgument>(
      [&] {
        SampleRounds(options_with(1), {.clients = {{0, 0, 0}}, .rounds = 1, .n_params = 5});
      },
      {"no client has samples"});
}

}  // namespace
}  // namespace hanse
