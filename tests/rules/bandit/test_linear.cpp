#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/bandit/linear.hpp"
#include "rules/bandit/reference.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

std::unique_ptr<BanditPolicy> policy_of(const TestBandit& bandit, const UcbOptions& options,
                                        StatisticsForm form) {
  const auto features = std::make_shared<const ArmFeatures>(bandit.features, bandit.base, form);
  return make_linear_policy({.ucb = options,
                             .model = [=](int64_t) { return LinearModel{features}; },
                             .scalars = [](double) { return 1.0; }});
}

struct Case {
  double gamma;
  double sqrt_beta;
};

class AgainstAlgorithm1 : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Client, AgainstAlgorithm1,
                         testing::Values(Case{0, 0.5}, Case{0.7, 0.5}, Case{3, -1}, Case{40, 0.2},
                                         Case{std::numeric_limits<double>::infinity(), -1}));

// Arms, times of synchronization: word for word the paper's, in both forms.
TEST_P(AgainstAlgorithm1, PlaysTheSame) {
  const UcbOptions options{.lambda = 0.4,
                           .gamma = GetParam().gamma,
                           .sqrt_beta = GetParam().sqrt_beta,
                           .sigma = 0.3,
                           .delta = 0.05,
                           .radius = 0.7};
  for (const int64_t arms : {3, 9}) {
    const TestBandit bandit = random_bandit(5, 24, arms, 6, 20 + static_cast<uint64_t>(arms));
    const Play expected = play_literally(bandit, options);
    for (const auto form : {StatisticsForm::kPacked, StatisticsForm::kPerArm}) {
      const Play found = play_policy(*policy_of(bandit, options, form), bandit);
      EXPECT_EQ(found.picks, expected.picks);
      EXPECT_EQ(found.syncs, expected.syncs);
    }
    if (options.gamma == 0) {
      EXPECT_EQ(expected.syncs.size(), expected.picks.size());
    }
    if (options.gamma == 3) {
      EXPECT_GT(expected.syncs.size(), 2U);
    }
    if (std::isinf(options.gamma)) {
      EXPECT_TRUE(expected.syncs.empty());
    }
  }
}

// next() changes nothing: asked ten times, it says the same.
TEST(Client, ATurnToldIsNotATurnPlayed) {
  const TestBandit bandit = random_bandit(1, 30, 6, 4, 2);
  const auto policy = policy_of(bandit, {.lambda = 0.5, .gamma = 200}, StatisticsForm::kPacked);
  const auto asked = policy->make_client(0), quiet = policy->make_client(0);
  for (int64_t t = 0; t < 30; ++t) {
    for (int i = 0; i < 10; ++i) asked->next();
    const Turn turn = asked->next();
    const Turn expected = quiet->next();
    ASSERT_EQ(turn.arm, expected.arm);
    ASSERT_EQ(turn.triggers, expected.triggers);
    asked->play(turn, bandit.values[static_cast<std::size_t>(turn.arm)]);
    quiet->play(turn, bandit.values[static_cast<std::size_t>(turn.arm)]);
  }
}

// A client put together again from its own pulls goes on with the same bits.
TEST(Client, GoesOnFromItsOwnPulls) {
  const TestBandit bandit = random_bandit(1, 200, 8, 5, 6);
  const auto policy = policy_of(bandit, {.lambda = 0.5, .gamma = 1e9}, StatisticsForm::kPacked);
  const auto first = policy->make_client(0), second = policy->make_client(0);
  const auto play = [&](BanditClient& client, int64_t t) {
    const Turn turn = client.next();
    client.play(turn, bandit.values[static_cast<std::size_t>(turn.arm)] +
                          bandit.noise[static_cast<std::size_t>(t)]);
    return turn.arm;
  };
  for (int64_t t = 0; t < 100; ++t) play(*first, t);
  second->replay(first->own());
  for (int64_t t = 100; t < 200; ++t) ASSERT_EQ(play(*first, t), play(*second, t));
  EXPECT_EQ(first->own().rewards, second->own().rewards);
}

TEST(BestArm, IsTheLowestOfEqualOnes) {
  EXPECT_EQ(best_arm(std::vector<double>{1, 3, 3, 2}), 1);
  EXPECT_EQ(best_arm(std::vector<double>{1, 3 - 1e-14, 3, 2}), 1);
  EXPECT_EQ(best_arm(std::vector<double>{1, 3 - 1e-9, 3, 2}), 2);
  EXPECT_EQ(best_arm(std::vector<double>{-5, -5, -7}), 0);
  EXPECT_EQ(best_arm(std::vector<double>{0, 1e-300, 2e-300}), 2);
}

TEST(Client, TheRadiusIsAbbasiYadkoris) {
  const UcbOptions options{.lambda = 4, .sigma = 0.2, .delta = 0.1, .radius = 3};
  EXPECT_NEAR(confidence_radius(options, 1.5), 0.2 * std::sqrt(1.5 + 2 * std::log(10.0)) + 2 * 3,
              1e-15);
  EXPECT_EQ(confidence_radius({.sqrt_beta = 0.7}, 1.5), 0.7);
  EXPECT_EQ(confidence_radius({.sqrt_beta = 0}, 1.5), 0);
}

TEST(Client, RefusesOptionsOutOfRange) {
  const auto check = [](const UcbOptions& options) { return [=] { check_options(options); }; };
  expect_error<InvalidArgument>(check({.lambda = 0}), {"bandit.lambda"});
  expect_error<InvalidArgument>(check({.lambda = NAN}), {"bandit.lambda"});
  expect_error<InvalidArgument>(check({.gamma = -1e-9}), {"bandit.gamma"});
  expect_error<InvalidArgument>(check({.gamma = NAN}), {"bandit.gamma"});
  expect_error<InvalidArgument>(check({.sigma = -1}), {"bandit.sigma"});
  expect_error<InvalidArgument>(check({.delta = 0}), {"bandit.delta"});
  expect_error<InvalidArgument>(check({.delta = 1}), {"bandit.delta"});
  expect_error<InvalidArgument>(check({.radius = INFINITY}), {"bandit.radius"});
  check_options({.gamma = 0, .sigma = 0, .radius = 0});
  check_options({.gamma = std::numeric_limits<double>::infinity()});
}

}  // namespace
}  // namespace hanse
