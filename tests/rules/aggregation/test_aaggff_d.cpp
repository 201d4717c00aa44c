#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "hanse/base/error.hpp"
#include "rules/aggregation/literal_d.hpp"
#include "rules/aggregation/support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

const Variant kVariants[] = {Variant::kPaper, Variant::kReference, Variant::kCorrected};

// Thirty rounds of random subsets; `weight` makes the draw's weights of the participants.
void expect_literal(const AaggffOptions& options, int64_t clients, int64_t per_round,
                    const std::function<double(RandomStream&)>& weight) {
  const double participation = static_cast<double>(per_round) / static_cast<double>(clients);
  const auto rule = make_aaggff_d(options, clients, participation);
  LiteralD literal(options, clients, participation);
  RandomStream random(21, Purpose::kData, static_cast<uint64_t>(clients),
                      static_cast<uint64_t>(per_round));
  for (int64_t t = 1; t <= 30; ++t) {
    const Ids ids = random_clients(clients, per_round, random);
    const Numbers losses = random_losses(ids.size(), random);
    Numbers weights;
    for (std::size_t i = 0; i < ids.size(); ++i) weights.push_back(weight(random));
    const Mix mix = mix_round(*rule, t, ids, losses, weights);
    expect_near(mix.coefficients, literal.mix(ids, losses, weights), 1e-12);
    expect_near(rule->decision(), literal.decision, 1e-12);
  }
}

TEST(AaggffD, EqualsTheEquationsOverAllClients) {
  for (const Variant variant : kVariants) {
    EXPECT_EQ(make_aaggff_d(device_options(0.5, variant), 4, 0.5)->decision(),
              Numbers(4, variant == Variant::kReference ? 0.5 : 0.25));
    for (const auto& [clients, per_round] : {std::pair<int64_t, int64_t>{3, 1}, {7, 3}, {50, 5}}) {
      const double share = static_cast<double>(per_round) / static_cast<double>(clients);
      for (const Cdf cdf : {Cdf::kNormal, Cdf::kFrechet}) {
        expect_literal(device_options(share, variant, cdf), clients, per_round,
                       [share](RandomStream&) { return 1 / share; });
      }
    }
  }
}

TEST(AaggffD, AStatedBoundOfTheGradients) {
  AaggffOptions options = device_options(0.5);
  options.lipschitz = 0.7;
  expect_literal(options, 8, 4, [](RandomStream&) { return 2; });
}

TEST(AaggffD, EqualsTheEquationsUnderUnequalDrawWeights) {
  for (const Variant variant : kVariants) {
    AaggffOptions options = device_options(0.9, variant, Cdf::kLogistic);
    options.response.c1 = 0.2;
    for (const Estimator estimator : {Estimator::kNormalized, Estimator::kUnbiased}) {
      options.estimator = estimator;
      expect_literal(options, 20, 4,
                     [](RandomStream& random) { return 0.5 + 9 * random.uniform(); });
    }
  }
}

TEST(AaggffD, EqualsTheEquationsWithEveryClient) {
  for (const Variant variant : kVariants) {
    for (const int64_t clients : {1, 2, 9}) {
      expect_literal(device_options(1, variant), clients, clients,
                     [](RandomStream&) { return 1.0; });
    }
  }
}

// Draws with replacement can be as many as there are clients and leave some out. Those are then
// imputed, instead of counting as if their response were 0.
TEST(AaggffD, ClientsLeftOutOfAFullRoundAreImputed) {
  const auto rule = make_aaggff_d(device_options(1, Variant::kPaper, Cdf::kExponential), 3, 1);
  const Mix mix = mix_round(*rule, 1, {2, 0}, {1, 3}, {1, 1});
  const Numbers& r = mix.response;
  const double rate = std::sqrt(std::log(3.0) / 2);  // L = 1
  const auto share = [&](double rd) { return std::exp(rate * rd / (1 + mean(r))); };
  const double sum = share(r[0]) + share(mean(r)) + share(r[1]);
  expect_near(rule->decision(), {share(r[1]) / sum, share(mean(r)) / sum, share(r[0]) / sum},
              1e-15);
}

// Theorem 5.2.
TEST(AaggffD, RegretOfFullParticipationStaysBelowItsBound) {
  for (const std::size_t k : {2, 3, 8}) {
    for (const auto& adversary : adversaries(k)) {
      const auto rule = make_aaggff_d(device_options(1, Variant::kPaper, Cdf::kWeibull),
                                      static_cast<int64_t>(k), 1);
      const double bound = 2 * std::sqrt(400 * std::log(static_cast<double>(k)));
      EXPECT_LT(play(*rule, 400, adversary).regret, bound) << k;
    }
  }
  const auto rule = make_aaggff_d(device_options(1, Variant::kPaper, Cdf::kWeibull), 3, 1);
  const Game game = play(*rule, 2000, [](int64_t, const Numbers&) { return one_hot(3, 2); });
  EXPECT_GT(game.regret_uniform, 5 * std::sqrt(2000 * std::log(3.0)));  // equal weights exceed it
  EXPECT_LT(game.regret, 2 * std::sqrt(2000 * std::log(3.0)));
}

int64_t peak_memory_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// 10^7 clients: the first round in closed form, then many in little memory.
TEST(AaggffD, TenMillionClients) {
  const int64_t clients = 10'000'000;
  const double share = 5.0 / static_cast<double>(clients);
  const int64_t before_kib = peak_memory_kib();
  const auto rule = make_aaggff_d(device_options(share), clients, share);
  const Ids first{9'999'999, 0, 17, 5'000'000, 4};
  const Numbers weights(5, 1 / share);
  const Mix mix = mix_round(*rule, 1, first, {1, 2, 3, 4, 5}, weights);
  const double rate = std::sqrt(std::log(1e7)) / ((2 + share) * std::sqrt(2.0));
  Numbers expected;
  for (const double r : mix.response) {
    expected.push_back(
        std::exp(rate * (r - mean(mix.response)) / share / (1 + mean(mix.response))));
  }
  const double sum = 5 * mean(expected);
  for (double& p : expected) p /= sum;
  expect_near(mix.coefficients, expected, 1e-14);
  RandomStream random(22, Purpose::kData);
  for (int64_t t = 2; t <= 2000; ++t) {
    Ids ids;
    for (int64_t i = 0; i < 5; ++i) ids.push_back(5 * random.below(clients / 5) + i);
    mix_round(*rule, t, ids, random_losses(5, random), weights);
  }
  EXPECT_LT(peak_memory_kib() - before_kib, 16 * 1024);  // a vector over the clients has 80 MB
}

// Exponents of thousands: an unlikely client that always has the larger loss.
TEST(AaggffD, LongRunsStayFinite) {
  for (const Estimator estimator : {Estimator::kNormalized, Estimator::kUnbiased}) {
    AaggffOptions options = device_options(0.5, Variant::kPaper, Cdf::kWeibull);
    options.estimator = estimator;
    const auto rule = make_aaggff_d(options, 1000, 0.001);
    Mix mix;
    for (int64_t t = 1; t <= 3000; ++t) {
      mix = mix_round(*rule, t, {0, 1}, {1e-6, 1}, {1e5, 1e5});
    }
    const double scale = estimator == Estimator::kUnbiased ? 1e5 : 1;
    expect_near(mix.coefficients, {0, scale}, 1e-9);
  }
}

TEST(AaggffD, NeedsLossesOnly) {
  const auto rule = make_aaggff_d(device_options(0.5), 4, 0.5);
  EXPECT_TRUE(rule->needs().losses);
  EXPECT_FALSE(rule->needs().full);
  EXPECT_FALSE(rule->needs().norms);
}

TEST(AaggffD, BadLossesChangeNothing) {
  const auto rule = make_aaggff_d(device_options(0.5), 4, 0.5);
  mix_round(*rule, 1, {0, 1}, {1, 2}, {2, 2});
  const Numbers before = rule->decision();
  for (const double bad : {-1.0, std::numeric_limits<double>::infinity()}) {
    expect_error<InvalidArgument>(
        [&] {
          mix_round(*rule, 2, {0, 1}, {1, bad}, {2, 2});
        },
        {"participant 1", "finite"});
  }
  EXPECT_EQ(rule->decision(), before);
}

TEST(AaggffD, GoesOnAfterLoadBitForBit) {
  for (const Variant variant : kVariants) {
    for (const Estimator estimator : {Estimator::kNormalized, Estimator::kUnbiased}) {
      AaggffOptions options = device_options(0.2, variant);
      options.estimator = estimator;
      const auto straight = make_aaggff_d(options, 30, 0.2);
      RandomStream random(23, Purpose::kData);
      const auto next = [&](int64_t t, const Ids& ids, const Numbers& losses, Aggregator& rule) {
        return mix_round(rule, t, ids, losses, Numbers(6, 5)).coefficients;
      };
      for (int64_t t = 1; t <= 4; ++t) {
        next(t, random_clients(30, 6, random), random_losses(6, random), *straight);
      }
      State state;
      straight->save(state);
      const auto resumed = make_aaggff_d(options, 30, 0.2);
      mix_round(*resumed, 1, {29}, {1}, {30});  // what it knew is forgotten
      resumed->load(state);
      for (int64_t t = 5; t <= 12; ++t) {
        const Ids ids = random_clients(30, 6, random);
        const Numbers losses = random_losses(6, random);
        EXPECT_EQ(next(t, ids, losses, *resumed), next(t, ids, losses, *straight));
        EXPECT_EQ(resumed->decision(), straight->decision());
      }
    }
  }
}

}  // namespace
}  // namespace hanse
