#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "rules/sampling/baseline_reference.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

struct Size {
  int64_t clients;
  int64_t per_round;
  bool replacement;
};
const std::vector<Size> kSizes{{1, 1, true},  {1, 1, false}, {2, 5, true},   {7, 3, false},
                               {7, 7, false}, {33, 4, true}, {100, 10, true}};

LearningOptions options_of(const Size& size, BoundSource bound, double value) {
  LearningOptions options;
  options.replacement = size.replacement;
  options.bound = bound;
  options.a_max = value;
  options.horizon = 1000;
  return options;
}

TEST(Mabs, EqualsASlowOne) {
  for (const Size& size : kSizes) {
    const auto m = static_cast<double>(size.clients);
    const auto options = options_of(size, BoundSource::kGiven, 4);
    const double delta = std::sqrt(std::pow(0.4, 4) * std::log(m) / (1000 * std::pow(m, 5) * 4));
    for (const bool churn : {false, true}) {
      SlowMabs slow(size.clients, 0.4, delta);
      compare(*make_mabs_sampler(options, size.clients, size.per_round), slow, 1000, churn);
      const auto most = *std::max_element(slow.log_w.begin(), slow.log_w.end());
      EXPECT_TRUE(m == 1 || (most > 0.2L && most < 1000)) << most;
    }
  }
}

// Exponents in the thousands, and many at once beyond what exp() can hold.
TEST(Mabs, WeightsAreLogarithms) {
  for (const double rate : {1e-2, 1.0, 1e9}) {
    LearningOptions options;
    options.rate = rate;
    options.mixing = 0.1;
    const auto sampler = make_mabs_sampler(options, 20, 5);
    SlowMabs slow(20, 0.1, rate);
    compare(*sampler, slow, 1000);
    EXPECT_GT(*std::max_element(slow.log_w.begin(), slow.log_w.end()), 5000);
  }
}

// One draw of client 1 of 4, twice in the round: w = exp(2 delta a/p^3), p = 1/4.
TEST(Mabs, DeltaIsFromTheGradientsBeforeTheFirstRound) {
  const std::vector<double> all{1, 2, 3, 4};
  for (const auto& [variant, mean] :
       {std::pair{Variant::kPaper, 7.5}, std::pair{Variant::kReference, 2.5}}) {
    LearningOptions options;
    options.variant = variant;
    options.horizon = 50;
    options.rate_scale = 3;
    const auto sampler = make_mabs_sampler(options, 4, 2);
    ASSERT_TRUE(sampler->needs_all_clients());
    sampler->observe_all(all);
    EXPECT_FALSE(sampler->needs_all_clients());
    const std::vector<double> a{0.5};
    sampler->observe(sampler->impose(sampler->per_round(), std::vector<int64_t>{1, 1}), {a, {}});
    const double delta = std::sqrt(std::pow(0.4, 4) * std::log(4) / (50 * std::pow(4, 5) * mean));
    const double w = std::exp(2 * delta * 3 * 0.5 * 64);
    EXPECT_NEAR(sampler->probability(1), 0.6 * w / (w + 3) + 0.1, 1e-14);
    EXPECT_NEAR(sampler->probability(0), 0.6 / (w + 3) + 0.1, 1e-14);
  }
}

TEST(Mabs, ARunningBoundChangesLaterUpdatesAlone) {
  auto options = options_of({4, 1, true}, BoundSource::kRunning, 0);
  const auto sampler = make_mabs_sampler(options, 4, 1);
  SlowMabs slow(4, 0.4, 0);
  double most = 0;
  for (const auto& [client, value] :
       std::vector<std::pair<int64_t, double>>{{2, 0}, {2, 0.5}, {1, 4}, {2, 3}}) {
    most = std::max(most, value);
    slow.delta = most > 0 ? std::sqrt(std::pow(0.4, 4) * std::log(4) / (1000 * 1024)) / most : 0;
    const std::vector<double> a{value};
    sampler->observe(sampler->impose(sampler->per_round(), std::vector<int64_t>{client}), {a, {}});
    std::vector<int64_t> counts(4);
    counts[static_cast<std::size_t>(client)] = 1;
    slow.observe(counts, slow.p(), std::vector<double>(4, value), {});
    ASSERT_NO_FATAL_FAILURE(expect_near(probabilities(*sampler), slow.p(), 1e-14, client));
  }
  EXPECT_GT(sampler->probability(2), 0.25);
}

TEST(Vrb, EqualsASlowOne) {
  for (const Size& size : kSizes) {
    const double theta = std::cbrt(static_cast<double>(size.clients) / 1000);
    for (const bool running : {false, true}) {
      const auto options =
          options_of(size, running ? BoundSource::kRunning : BoundSource::kGiven, 0.5);
      for (const bool churn : {false, true}) {
        SlowVrb slow(size.clients, theta, running ? 0 : 0.5);
        slow.running = running;
        compare(*make_vrb_sampler(options, size.clients, size.per_round), slow, 1000, churn);
      }
    }
  }
}

TEST(Vrb, TheReferenceGoesByTheLosses) {
  for (const Size& size : kSizes) {
    for (const bool given : {false, true}) {
      auto options = options_of(size, given ? BoundSource::kGiven : BoundSource::kFirstRound, 0.5);
      options.variant = Variant::kReference;
      options.horizon = 0;
      const auto sampler = make_vrb_sampler(options, size.clients, size.per_round);
      EXPECT_FALSE(sampler->needs_all_clients());
      SlowVrb slow(size.clients, 0.4, given ? 0.5 : 0);
      slow.by_losses = true;
      slow.running = !given;
      compare(*sampler, slow, 1000, true);
    }
  }
}

TEST(Vrb, LIsTheLargestGradientBeforeTheFirstRound) {
  LearningOptions options;
  options.mixing = 0.2;
  const auto sampler = make_vrb_sampler(options, 3, 2);
  ASSERT_TRUE(sampler->needs_all_clients());
  sampler->observe_all(std::vector<double>{1, 6, 2});
  EXPECT_FALSE(sampler->needs_all_clients());
  const std::vector<double> a{10, 5};
  sampler->observe(sampler->impose(sampler->per_round(), std::vector<int64_t>{2, 0}), {a, {}});
  // gamma = 6 * 3/0.2 = 90; w = 15, 0, 30.
  const double total = std::sqrt(105) + std::sqrt(90) + std::sqrt(120);
  EXPECT_NEAR(sampler->probability(0), 0.8 * std::sqrt(105) / total + 0.2 / 3, 1e-15);
  EXPECT_NEAR(sampler->probability(1), 0.8 * std::sqrt(90) / total + 0.2 / 3, 1e-15);
  EXPECT_NEAR(sampler->probability(2), 0.8 * std::sqrt(120) / total + 0.2 / 3, 1e-15);
}

TEST(Vrb, IsUniformWhenThereAreNoMoreRoundsThanClients) {
  auto options = options_of({30, 4, true}, BoundSource::kRunning, 0);
  options.horizon = 30;
  const auto sampler = make_vrb_sampler(options, 30, 4);
  for (int64_t round = 1; round <= 30; ++round) play(*sampler, round);
  for (const double p : probabilities(*sampler)) EXPECT_DOUBLE_EQ(p, 1.0 / 30);
}

TEST(Avare, EqualsASlowOne) {
  for (const Size& size : kSizes) {
    for (const double delta : {1.0, 0.3}) {
      for (const double factor : {1.0, 2.5}) {
        LearningOptions options;
        options.replacement = size.replacement;
        options.delta = delta;
        const double c = factor * static_cast<double>(size.clients);
        if (factor != 1) options.c = c;
        SlowAvare slow(size.clients, size.per_round, c, delta);
        compare(*make_avare_sampler(options, size.clients, size.per_round), slow, 1000,
                delta == 0.3);
      }
    }
  }
}

// No distribution of the restricted simplex has a smaller sum of h^2/p.
TEST(Avare, MinimisesTheVariance) {
  const int64_t m = 12;
  const auto sampler = make_avare_sampler({}, m, 3);
  SlowAvare slow(m, 3, static_cast<double>(m), 1);
  compare(*sampler, slow, 300);
  const auto p = probabilities(*sampler);
  const auto cost = [&](const std::vector<double>& q) {
    double sum = 0;
    for (std::size_t i = 0; i < q.size(); ++i) sum += slow.h[i] * slow.h[i] / q[i];
    return sum;
  };
  EXPECT_DOUBLE_EQ(*std::min_element(p.begin(), p.end()), slow.epsilon());
  RandomStream stream(4, Purpose::kData);
  for (int64_t trial = 0; trial < 1000; ++trial) {
    auto q = p;
    const auto from = static_cast<std::size_t>(stream.below(m));
    const auto to = static_cast<std::size_t>(stream.below(m));
    const double moved = (q[from] - slow.epsilon()) * stream.uniform() * stream.uniform();
    q[from] -= moved;
    q[to] += moved;
    EXPECT_GE(cost(q), cost(p) * (1 - 1e-12));
  }
}

// A gradient that was large and is zero now sinks to the floor; with no other, p is uniform.
TEST(Avare, RemembersTheLastGradientAlone) {
  const auto sampler = make_avare_sampler({}, 4, 1);
  const auto see = [&](int64_t client, double value) {
    const std::vector<double> a{value};
    sampler->observe(sampler->impose(sampler->per_round(), std::vector<int64_t>{client}), {a, {}});
  };
  const auto epsilon = [](double t) {  // C = M = 4, K = 1
    return 1 / (std::pow(4, 2.0 / 3) * std::pow(3 + t, 1.0 / 3));
  };
  see(1, 9);
  EXPECT_NEAR(sampler->probability(0), epsilon(2), 1e-15);
  EXPECT_NEAR(sampler->probability(1), 1 - 3 * epsilon(2), 1e-15);
  see(1, 0);
  EXPECT_EQ(probabilities(*sampler), std::vector<double>(4, 0.25));
  see(3, 1e-20);
  EXPECT_NEAR(sampler->probability(1), epsilon(4), 1e-15);
  EXPECT_NEAR(sampler->probability(3), 1 - 3 * epsilon(4), 1e-15);
}

std::vector<std::function<std::unique_ptr<ClientSampler>()>> all_kinds() {
  std::vector<std::function<std::unique_ptr<ClientSampler>()>> kinds;
  const Size size{40, 6, true};
  for (const Variant variant : {Variant::kPaper, Variant::kReference}) {
    auto options = options_of(size, BoundSource::kRunning, 0);
    options.variant = variant;
    kinds.emplace_back([=] { return make_vrb_sampler(options, size.clients, size.per_round); });
    options.replacement = false;
    options.rate_scale = 1e6;
    kinds.emplace_back([=] { return make_mabs_sampler(options, size.clients, size.per_round); });
  }
  for (const bool replacement : {true, false}) {
    kinds.emplace_back([=] {
      return make_avare_sampler({.replacement = replacement}, size.clients, size.per_round);
    });
  }
  return kinds;
}

TEST(Baselines, GoOnWithTheSameBitsAfterALoad) {
  for (const auto& make : all_kinds()) {
    const auto sampler = make();
    std::vector<bool> here(static_cast<std::size_t>(sampler->clients()), true);
    const auto turn = [&](int64_t round) {
      const auto changed = changes(sampler->clients(), round);
      for (const int64_t client : changed) here[static_cast<std::size_t>(client)].flip();
      return changed;
    };
    for (int64_t round = 1; round <= 101; ++round) {
      sampler->toggle(turn(round));
      play(*sampler, round);
    }
    State state;
    sampler->save(state);
    const auto other = make();
    play(*other, 7);  // what it held is replaced
    other->load(state);
    std::vector<int64_t> away;
    for (int64_t client = 0; client < sampler->clients(); ++client) {
      if (!here[static_cast<std::size_t>(client)]) away.push_back(client);
    }
    ASSERT_FALSE(away.empty());
    other->toggle(away);
    for (int64_t round = 102; round <= 200; ++round) {
      const auto changed = turn(round);
      sampler->toggle(changed);
      other->toggle(changed);
      const Draw draw = play(*sampler, round);
      const Draw again = play(*other, round);
      ASSERT_EQ(draw.clients, again.clients) << round;
      ASSERT_EQ(draw.weights, again.weights) << round;
      ASSERT_EQ(probabilities(*sampler), probabilities(*other)) << round;
    }
  }
}

TEST(Baselines, KeepTheBoundOfTheFirstRoundAfterALoad) {
  LearningOptions options;
  options.horizon = 100;
  for (const auto& make : {make_mabs_sampler, make_vrb_sampler}) {
    const auto sampler = make(options, 5, 2);
    sampler->observe_all(std::vector<double>{1, 2, 3, 4, 5});
    State state;
    sampler->save(state);
    const auto other = make(options, 5, 2);
    EXPECT_TRUE(other->needs_all_clients());
    other->load(state);
    EXPECT_FALSE(other->needs_all_clients());
    play(*sampler, 1);
    play(*other, 1);
    EXPECT_EQ(probabilities(*sampler), probabilities(*other));
  }
}

TEST(Baselines, LearnNothingFromARoundOfEveryone) {
  for (const auto& make : all_kinds()) {
    const auto sampler = make();
    play(*sampler, 1);
    const auto before = probabilities(*sampler);
    std::vector<int64_t> away(36);
    std::iota(away.begin(), away.end(), 0);
    sampler->toggle(away);
    EXPECT_TRUE(play(*sampler, 2).everyone);  // 4 are left, 6 would be drawn
    EXPECT_EQ(probabilities(*sampler), before);
  }
}

TEST(Baselines, TakeFeedbackThatIsNoNumberAsTheLargestOfTheRound) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& make : all_kinds()) {
    const auto after = [&](double third) {
      const auto sampler = make();
      const auto draw =
          sampler->impose(sampler->per_round(), std::vector<int64_t>{8, 9, 10, 11, 12, 13});
      const std::vector<double> values{1, 2, third, 1, 2, 1};
      sampler->observe(draw, {values, values});
      return probabilities(*sampler);
    };
    const auto largest = after(2);
    EXPECT_NE(after(1), largest);
    for (const double bad : {kNan, -kNan, HUGE_VAL, -HUGE_VAL, 1e31}) {
      EXPECT_EQ(after(bad), largest) << bad;
    }
  }
}

TEST(Baselines, RefuseOptionsOutOfRange) {
  for (const auto& make : {make_mabs_sampler, make_vrb_sampler}) {
    const auto refuse = [&](const std::function<void(LearningOptions&)>& change,
                            std::initializer_list<std::string> parts) {
      LearningOptions options;
      options.horizon = 10;
      change(options);
      expect_error<InvalidArgument>([&] { make(options, 5, 6); }, parts);
    };
    for (const double mixing : {0.0, -0.5, 1.01}) {
      refuse([=](LearningOptions& options) { options.mixing = mixing; },
             {"mixing", "(0, 1]", "sampler.mixing"});
    }
    refuse([](LearningOptions& options) { options.rate = -0.5; }, {"rate -0.5", "sampler.rate"});
    refuse([](LearningOptions& options) { options.horizon = 0; }, {"rounds", "sampler.horizon"});
    refuse([](LearningOptions& options) { options.bound = BoundSource::kGiven; },
           {"bound 0", "sampler.a-max"});
    refuse([](LearningOptions& options) { options.replacement = false; },
           {"sampler.per-round", "[1, 5]"});
  }
  for (const double delta : {0.0, 1.5}) {
    expect_error<InvalidArgument>([&] { make_avare_sampler({.delta = delta}, 5, 2); },
                                  {"delta", "(0, 1]", "sampler.delta"});
  }
  expect_error<InvalidArgument>([] { make_avare_sampler({.c = 4.5}, 5, 2); },
                                {"C 4.5", "5", "sampler.c"});
  expect_error<InvalidArgument>([] { make_avare_sampler({.replacement = false}, 5, 6); },
                                {"sampler.per-round"});
}

}  // namespace
}  // namespace hanse
