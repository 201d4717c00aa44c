#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/experts/experts.hpp"
#include "support/chi_square.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;

std::vector<int64_t> all_of(int64_t nodes) {
  std::vector<int64_t> ids(static_cast<std::size_t>(nodes));
  std::iota(ids.begin(), ids.end(), int64_t{0});
  return ids;
}

Numbers weights_of(const ExpertRule& rule, std::size_t n, const std::vector<int64_t>& ids) {
  Numbers weights(n * n, -1);
  rule.weigh(ids, weights);
  return weights;
}

void expect_near(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    EXPECT_NEAR(found[k], expected[k], 1e-14) << "entry " << k;
  }
}

TEST(FedExp, WeightsInClosedForm) {
  // Losses in halves of log 2 / eta, so that every weight is a power of 2.
  const double eta = 2 * std::log(2.0);
  const auto rule = std::make_unique<ExpertRule>(Exchange::kAll, 3, eta);
  expect_near(weights_of(*rule, 3, {0, 1, 2}), Numbers(9, 1.0 / 3));
  rule->observe(Numbers{0, 0.5, 1, 0.5, 0.5, 0.5, 1, 0, 0});
  expect_near(weights_of(*rule, 3, {0, 1, 2}),
              {4.0 / 7, 2.0 / 7, 1.0 / 7, 1.0 / 3, 1.0 / 3, 1.0 / 3, 1.0 / 9, 4.0 / 9, 4.0 / 9});
  // Absent nodes' losses count all the same.
  rule->observe(Numbers{0, 0, 1, 0, 0.5, 0, 0, 0.5, 1});
  expect_near(weights_of(*rule, 3, {1, 2}),
              {0, 8.0 / 9, 1.0 / 9, 0, 1.0 / 3, 2.0 / 3, 0, 2.0 / 3, 1.0 / 3});
  expect_near(weights_of(*rule, 3, {0}), {1, 0, 0, 1, 0, 0, 1, 0, 0});
}

TEST(FedExp, LogarithmsDoNotUnderflow) {
  const auto rule = std::make_unique<ExpertRule>(Exchange::kAll, 2, 1.0);
  for (int t = 0; t < 100000; ++t) rule->observe(Numbers{1, 1, 0.999, 1});
  const Numbers weights = weights_of(*rule, 2, {0, 1});
  EXPECT_DOUBLE_EQ(weights[0], 0.5);
  EXPECT_DOUBLE_EQ(weights[1], 0.5);
  EXPECT_NEAR(weights[3], std::exp(-100.0), 1e-50);
  EXPECT_EQ(weights_of(*rule, 2, {1}), (Numbers{0, 1, 0, 1}));
}

TEST(FedExp, MemoryIsAllThereIs) {
  const auto rule = std::make_unique<ExpertRule>(Exchange::kAll, 4, 0.3);
  RandomStream random(1, Purpose::kData);
  Numbers losses(16);
  for (double& loss : losses) loss = random.uniform();
  rule->observe(losses);
  const auto copy = std::make_unique<ExpertRule>(Exchange::kAll, 4, 0.3);
  const auto memory = rule->memory();
  std::copy(memory.begin(), memory.end(), copy->memory().begin());
  rule->observe(losses);
  copy->observe(losses);
  EXPECT_EQ(weights_of(*rule, 4, {0, 1, 3}), weights_of(*copy, 4, {0, 1, 3}));
}

// Losses [N] of a round for every row, from its number and the weights just used.
using Adversary = std::function<Numbers(int64_t t, int64_t horizon, const Numbers& weights)>;

struct Named {
  std::string name;
  Adversary adversary;
};

// Row 0 of the weights is what the adversary sees; all rows suffer the same.
std::vector<Named> adversaries(std::size_t n) {
  const auto one_for = [n](auto chosen) {
    Numbers losses(n, 0.0);
    for (std::size_t j = 0; j < n; ++j) losses[j] = chosen(j) ? 1 : 0;
    return losses;
  };
  const auto heaviest = [n](const Numbers& w) {
    const auto end = w.begin() + static_cast<std::ptrdiff_t>(n);
    return static_cast<std::size_t>(std::max_element(w.begin(), end) - w.begin());
  };
  return {
      {"punish the most trusted",
       [=](int64_t, int64_t, const Numbers& w) {
         return one_for([&](std::size_t j) { return j == heaviest(w); });
       }},
      {"spare the least trusted",
       [=](int64_t, int64_t, const Numbers& w) {
         const auto end = w.begin() + static_cast<std::ptrdiff_t>(n);
         const auto least = static_cast<std::size_t>(std::min_element(w.begin(), end) - w.begin());
         return one_for([&](std::size_t j) { return j != least; });
       }},
      {"the best one changes half-way",
       [=](int64_t t, int64_t horizon, const Numbers&) {
         return one_for([&](std::size_t j) { return j != (2 * t < horizon ? 0 : n - 1); });
       }},
      {"take turns",
       [=](int64_t t, int64_t, const Numbers&) {
         return one_for([&](std::size_t j) { return j == static_cast<std::size_t>(t) % n; });
       }},
      {"coins",
       [=](int64_t t, int64_t, const Numbers&) {
         RandomStream random(3, Purpose::kData, static_cast<uint64_t>(t));
         return one_for([&](std::size_t) { return random.below(2) == 1; });
       }},
      {"all alike", [=](int64_t, int64_t, const Numbers&) { return Numbers(n, 1.0); }},
  };
}

// sum_t sum_j p_tj l_tj - min_j sum_t l_tj of row 0.
double regret(const Adversary& adversary, std::size_t n, int64_t horizon, double eta) {
  const auto rule = std::make_unique<ExpertRule>(Exchange::kAll, static_cast<int64_t>(n), eta);
  Numbers sums(n, 0.0);
  double suffered = 0;
  for (int64_t t = 1; t <= horizon; ++t) {
    const Numbers weights = weights_of(*rule, n, all_of(static_cast<int64_t>(n)));
    const Numbers losses = adversary(t, horizon, weights);
    Numbers rows;
    for (std::size_t i = 0; i < n; ++i) rows.insert(rows.end(), losses.begin(), losses.end());
    for (std::size_t j = 0; j < n; ++j) {
      suffered += weights[j] * losses[j];
      sums[j] += losses[j];
    }
    rule->observe(rows);
  }
  return suffered - *std::min_element(sums.begin(), sums.end());
}

TEST(FedExp, RegretStaysBelowTheBoundOnAdversarialStreams) {
  double closest = 0;
  for (const std::size_t n : {1, 2, 5, 20}) {
    for (const int64_t horizon : {1, 7, 400}) {
      const double best = best_eta(static_cast<int64_t>(n), horizon);
      for (const double eta : {best, best / 10, 3 * best}) {
        const double bound =
            std::log(static_cast<double>(n)) / eta + eta * static_cast<double>(horizon) / 8;
        for (const auto& [name, adversary] : adversaries(n)) {
          const double found = regret(adversary, n, horizon, eta);
          EXPECT_LE(found, bound + 1e-9)
              << name << ", n " << n << ", T " << horizon << ", eta " << eta;
          if (n > 1) closest = std::max(closest, found / bound);
        }
      }
    }
  }
  EXPECT_GT(closest, 0.7);  // the streams are adversarial indeed
}

TEST(Experts, BestRateMakesTheBoundSmallest) {
  EXPECT_DOUBLE_EQ(best_eta(5, 400), std::sqrt(8 * std::log(5.0) / 400));
  EXPECT_EQ(best_eta(1, 400), 1);
}

TEST(Experts, LocalAndMean) {
  const auto local = std::make_unique<ExpertRule>(Exchange::kNone, 3);
  EXPECT_EQ(weights_of(*local, 3, {0, 2}), (Numbers{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(local->exchange(), Exchange::kNone);
  const auto mean = std::make_unique<ExpertRule>(Exchange::kMean, 3);
  EXPECT_EQ(weights_of(*mean, 3, {0, 2}), (Numbers{0.5, 0, 0.5, 0.5, 0, 0.5, 0.5, 0, 0.5}));
  EXPECT_EQ(mean->exchange(), Exchange::kMean);
  mean->observe(Numbers{1, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(weights_of(*mean, 3, {1}), (Numbers{0, 1, 0, 0, 1, 0, 0, 1, 0}));
}

TEST(SamplePeers, EverySubsetEquallyLikely) {
  std::vector<int64_t> counts(10);  // of the subsets {a, b} of five
  for (uint64_t t = 0; t < 5000; ++t) {
    RandomStream stream(1, Purpose::kSampling, t);
    const auto peers = sample_peers(5, 2, stream);
    ASSERT_EQ(peers.size(), 2U);
    ASSERT_LT(peers[0], peers[1]);
    ASSERT_LT(peers[1], 5);
    ++counts[static_cast<std::size_t>(peers[0] * (9 - peers[0]) / 2 + peers[1] - peers[0] - 1)];
  }
  expect_equally_likely(counts);
}

TEST(SamplePeers, AllDrawNothing) {
  RandomStream stream(1, Purpose::kSampling);
  EXPECT_EQ(sample_peers(4, 4, stream), all_of(4));
  EXPECT_EQ(stream.next(), RandomStream(1, Purpose::kSampling).next());
}

TEST(UnitLoss, ScalesAndClips) {
  EXPECT_EQ(unit_loss(0.75, 0), 0.75);
  EXPECT_EQ(unit_loss(1, 0), 1);
  EXPECT_EQ(unit_loss(3, 4), 0.75);
  EXPECT_EQ(unit_loss(9, 4), 1);
}

TEST(UnitLoss, RefusesWhatCannotBeWeighed) {
  expect_error<InvalidArgument>([] { unit_loss(1.5, 0); },
                                {"1.5", "outside [0, 1]", "online.loss-scale"});
  expect_error<InvalidArgument>([] { unit_loss(-0.5, 2); }, {"-0.5"});
  for (const double nan : {NAN, -NAN}) {
    expect_error<InvalidArgument>([&] { unit_loss(nan, 2); }, {"a loss of nan cannot"});
  }
  expect_error<InvalidArgument>([] { unit_loss(INFINITY, 2); }, {"inf"});
}

TEST(MayMix, ComparesWithCOverRootT) {
  EXPECT_TRUE(may_mix(0.1, 1, 100));
  EXPECT_TRUE(may_mix(-0.1, 1, 100));
  EXPECT_FALSE(may_mix(0.11, 1, 100));
  EXPECT_FALSE(may_mix(-0.11, 1, 100));
  EXPECT_TRUE(may_mix(1e9, 0, 100));  // off
}

// sum_j L_j w_j^lambda - lambda sum_j log w_j
double omni_objective(const Numbers& losses, double lambda, const Numbers& w) {
  double sum = 0;
  for (std::size_t j = 0; j < w.size(); ++j) {
    sum += losses[j] * std::pow(w[j], lambda) - lambda * std::log(w[j]);
  }
  return sum;
}

// Two nodes have the weights w and 1 - w: small steps lead downhill from the start.
double downhill(const Numbers& losses, double lambda, double w) {
  const auto value = [&](double x) { return omni_objective(losses, lambda, {x, 1 - x}); };
  for (double step = 1e-3; step > 1e-9; step /= 2) {
    for (bool moves = true; moves;) {
      moves = false;
      for (const double next : {w - step, w + step}) {
        if (next < kLeastShare || next > 1 - kLeastShare || value(next) >= value(w)) continue;
        w = next;
        moves = true;
        break;
      }
    }
  }
  return w;
}

TEST(OmniFedge, TwoNodesAgainstASearch) {
  for (const double lambda : {0.1, 0.5, 0.9, 1.0}) {
    for (const Numbers& losses : {Numbers{0.3, 0.3}, {2, 0.1}, {0, 1.5}, {7, 6}, {0.2, 40}}) {
      for (const double start : {0.5, 0.2, 0.97}) {
        const Numbers found = best_shares(losses, lambda, {start, 1 - start});
        EXPECT_NEAR(found[0] + found[1], 1, 1e-12);
        // With large losses there may be several minima: then no worse than downhill's.
        const double w = downhill(losses, lambda, start);
        EXPECT_LT(omni_objective(losses, lambda, found),
                  omni_objective(losses, lambda, {w, 1 - w}) + 1e-9)
            << lambda << " " << losses[0] << " " << losses[1] << " from " << start;
        if (losses[0] * (1 - lambda) < 1 && losses[1] * (1 - lambda) < 1) {
          EXPECT_NEAR(found[0], w, 1e-5);
        }
      }
    }
  }
}

// Inside the bounds the slopes are equal; at the lower one they may be larger, at 1 smaller.
TEST(OmniFedge, ManyNodesAreAtALocalMinimum) {
  for (const std::size_t n : {1U, 3U, 10U, 200U}) {
    for (uint64_t trial = 0; trial < 20; ++trial) {
      RandomStream random(3, Purpose::kData, n, trial);
      const double lambda = trial % 2 == 0 ? 0.5 : 0.2 + 0.8 * random.uniform();
      Numbers losses(n);
      for (double& loss : losses) loss = (trial % 3 == 0 ? 30 : 2) * random.uniform();
      const Numbers start(n, 1 / static_cast<double>(n));
      const Numbers w = best_shares(losses, lambda, start);
      EXPECT_NEAR(std::accumulate(w.begin(), w.end(), 0.0), 1, 1e-11);
      EXPECT_LE(omni_objective(losses, lambda, w), omni_objective(losses, lambda, start) + 1e-12);
      double highest = -INFINITY, lowest = INFINITY;  // slopes of those that may fall, may rise
      for (std::size_t j = 0; j < n; ++j) {
        ASSERT_GE(w[j], kLeastShare);
        const double slope = losses[j] * lambda * std::pow(w[j], lambda - 1) - lambda / w[j];
        if (w[j] > kLeastShare * (1 + 1e-9)) highest = std::max(highest, slope);
        if (w[j] < 1) lowest = std::min(lowest, slope);
      }
      EXPECT_LT(highest - lowest, 1e-4 * static_cast<double>(n)) << n << " trial " << trial;
    }
  }
}

TEST(OmniFedge, StartsFromTheWeightsBefore) {
  ExpertRule rule(Exchange::kGradients, 2, 0.5);
  EXPECT_EQ(weights_of(rule, 2, all_of(2)), Numbers(4, 0.5));
  const Numbers losses{9, 8, 1, 0};
  rule.observe(losses);
  const Numbers first = best_shares(Numbers{9, 8}, 0.5, {0.5, 0.5});
  const Numbers other = best_shares(Numbers{1, 0}, 0.5, {0.5, 0.5});
  EXPECT_EQ(weights_of(rule, 2, all_of(2)), (Numbers{first[0], first[1], other[0], other[1]}));
  rule.observe(Numbers{8, 9, 0, 1});
  const Numbers next = best_shares(Numbers{8, 9}, 0.5, first);
  const Numbers weights = weights_of(rule, 2, all_of(2));
  EXPECT_EQ(Numbers(weights.begin(), weights.begin() + 2), next);
  expect_error<InvalidArgument>([] { ExpertRule(Exchange::kGradients, 10001, 0.5); },
                                {"10001 nodes", "online.kind"});
}

}  // namespace
}  // namespace hanse
