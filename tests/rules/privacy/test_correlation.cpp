// Correlated noise: coefficients, how far one client moves what goes out, and what is decoded.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/rules/privacy/correlation.hpp"
#include "hanse/rules/privacy/noise.hpp"
#include "hanse/rules/privacy/renyi.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;
using Integers = std::vector<int64_t>;

TEST(Correlation, CoefficientsAreTheSquareRootOfPrefixSums) {
  const Numbers known{1, .5, .375, .3125, .2734375, .24609375, .2255859375, .20947265625};
  const Integers numerators = correlation_numerators(64);
  for (std::size_t j = 0; j < known.size(); ++j) {
    EXPECT_EQ(static_cast<double>(numerators[j]) / 2048, known[j]);
  }
  EXPECT_TRUE(std::is_sorted(numerators.rbegin(), numerators.rend()));
  for (std::size_t t = 0; t < numerators.size(); ++t) {
    double square = 0;
    for (std::size_t j = 0; j <= t; ++j) {
      square += static_cast<double>(numerators[j] * numerators[t - j]) / (2048.0 * 2048);
    }
    EXPECT_NEAR(square, 1, t < 8 ? 1e-15 : 0.01) << t;
  }
  EXPECT_EQ(correlation_numerators(1), Integers{2048});
}

// The largest squared length over every choice of rounds that are far enough apart.
double by_every_choice(const Integers& numerators, int64_t rounds, int64_t separation,
                       int64_t participations) {
  double most = 0;
  for (uint64_t members = 1; members < uint64_t{1} << rounds; ++members) {
    Integers chosen;
    for (int64_t t = 0; t < rounds; ++t) {
      if (members >> t & 1U) chosen.push_back(t);
    }
    bool is_allowed = std::ssize(chosen) <= participations;
    for (std::size_t i = 1; i < chosen.size(); ++i) {
      is_allowed = is_allowed && chosen[i] - chosen[i - 1] >= separation;
    }
    if (!is_allowed) continue;
    double squares = 0;
    for (int64_t t = 0; t < rounds; ++t) {
      double moved = 0;
      for (const int64_t start : chosen) {
        const int64_t j = t - start;
        if (j >= 0 && j < std::ssize(numerators)) {
          moved += static_cast<double>(numerators[static_cast<std::size_t>(j)]) / 2048;
        }
      }
      squares += moved * moved;
    }
    most = std::max(most, squares);
  }
  return most;
}

TEST(Correlation, SensitivityIsTheWorstChoiceOfRounds) {
  for (const int64_t bands : {1, 2, 3, 8}) {
    const Integers numerators = correlation_numerators(bands);
    for (const int64_t rounds : {1, 2, 5, 8, 11}) {
      for (const int64_t separation : {1, 2, 3, 4, 8, 20}) {
        for (const int64_t participations : {1, 2, 4, 100}) {
          EXPECT_NEAR(
              correlation_sensitivity_squared(numerators, rounds, separation, participations),
              by_every_choice(numerators, rounds, separation, participations), 1e-12)
              << bands << ' ' << rounds << ' ' << separation << ' ' << participations;
        }
      }
    }
  }
}

TEST(Correlation, SensitivityHasItsKnownNumbers) {
  const Integers eight = correlation_numerators(8);
  EXPECT_NEAR(correlation_sensitivity_squared(eight, 8, 8, 1), 1.718379, 1e-6);
  EXPECT_NEAR(correlation_sensitivity_squared(eight, 8, 2, 4), 12.758704, 1e-6);
  EXPECT_NEAR(correlation_sensitivity_squared(eight, 8, 3, 4), 7.429065, 1e-6);
  EXPECT_NEAR(correlation_sensitivity_squared(eight, 8, 4, 4), 4.299739, 1e-6);
  // Bands that do not meet: k times the length of one.
  const Integers four = correlation_numerators(4);
  EXPECT_DOUBLE_EQ(correlation_sensitivity_squared(four, 40, 5, 8),
                   8 * correlation_sensitivity_squared(four, 4, 4, 1));
}

// Plays rounds of `sums` with noise: what is decoded in each round.
std::vector<Numbers> played(const std::vector<Integers>& sums, const std::vector<Integers>& noise,
                            const Integers& numerators) {
  std::vector<Numbers> decoded;
  for (std::size_t t = 0; t < sums.size(); ++t) {
    Integers y = noise[t];
    for (std::size_t j = 0; j <= t && j < numerators.size(); ++j) {
      add_encoded(sums[t - j], numerators[j], y);
    }
    std::vector<std::span<const double>> before;
    for (std::size_t j = 1; j <= t; ++j) before.emplace_back(decoded[t - j]);
    Numbers xhat(y.size());
    decode(y, numerators, before, xhat);
    decoded.push_back(xhat);
  }
  return decoded;
}

TEST(Correlation, WithoutNoiseTheSumsComeBack) {
  RandomStream words(1, Purpose::kData);
  std::vector<Integers> sums(12, Integers(5));
  for (Integers& sum : sums) {
    for (int64_t& x : sum) x = words.below(1 << 20) - (1 << 19);
  }
  for (const int64_t bands : {1, 3, 8, 12}) {
    const auto decoded =
        played(sums, std::vector<Integers>(12, Integers(5)), correlation_numerators(bands));
    for (std::size_t t = 0; t < sums.size(); ++t) {
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_NEAR(decoded[t][i], static_cast<double>(sums[t][i]), 1e-6) << bands << ' ' << t;
      }
    }
  }
}

TEST(Correlation, TheNoiseThatIsLeftIsThatOfTheInverse) {
  // One draw in round 0 is taken back over the later ones: the series of sqrt(1 - x).
  std::vector<Integers> noise(6, Integers(1));
  noise[0] = {2048};
  const auto decoded =
      played(std::vector<Integers>(6, Integers(1)), noise, correlation_numerators(8));
  const double known[] = {1, -.5, -.125, -.0625, -.0390625, -.02734375};
  for (std::size_t t = 0; t < 6; ++t) EXPECT_NEAR(decoded[t][0], known[t], 1e-12);
}

TEST(Correlation, NoiseOfTwoRoundsIsCorrelatedAsTheInverseSays) {
  constexpr std::size_t kEntries = 20000;
  const Noise law(Mechanism::kDiscreteGaussian, int64_t{1} << 22);
  std::vector<Integers> noise(4, Integers(kEntries));
  for (std::size_t t = 0; t < noise.size(); ++t) {
    CipherStream words(CipherKey{}, t);
    law.add(words, noise[t]);
  }
  const auto decoded =
      played(std::vector<Integers>(4, Integers(kEntries)), noise, correlation_numerators(8));
  // Rounds 3 and 2 share the draws of rounds 0 to 2.
  const double inverse[] = {1, -.5, -.125, -.0625};
  double expected = 0, found = 0;
  for (std::size_t s = 0; s <= 2; ++s) expected += inverse[3 - s] * inverse[2 - s];
  for (std::size_t i = 0; i < kEntries; ++i) {
    found += decoded[3][i] * decoded[2][i] / static_cast<double>(kEntries);
  }
  EXPECT_NEAR(found, expected, 5 * 1.3 / std::sqrt(static_cast<double>(kEntries)));
}

TEST(Correlation, PartsOfASumAreEncodedApart) {
  Integers whole{0, 0}, parts{0, 0};
  const int64_t most = std::numeric_limits<int64_t>::max();
  add_encoded(Integers{most, -7}, 2048, whole);
  add_encoded(Integers{most - 5, -3}, 2048, parts);
  add_encoded(Integers{5, -4}, 2048, parts);
  EXPECT_EQ(whole, parts);
}

// The nodes whose noise is in what was released up to round t.
std::vector<TreeNode> in_prefix(int64_t t) {
  std::vector<TreeNode> nodes;
  for (int64_t round = 1; round <= t; ++round) {
    const TreeStep step = tree_step(round);
    for (const TreeNode& node : step.removed) {
      const auto found = std::find(nodes.begin(), nodes.end(), node);
      EXPECT_NE(found, nodes.end()) << "round " << round << " removes what is not there";
      if (found != nodes.end()) nodes.erase(found);
    }
    nodes.push_back(step.added);
  }
  return nodes;
}

TEST(Tree, APrefixHasTheNodesOfItsBinaryDigits) {
  EXPECT_EQ(tree_step(1).added, (TreeNode{1, 0}));
  EXPECT_EQ(tree_step(8).removed, (std::vector<TreeNode>{{7, 0}, {6, 1}, {4, 2}}));
  EXPECT_EQ(in_prefix(7), (std::vector<TreeNode>{{4, 2}, {6, 1}, {7, 0}}));
  for (int64_t t = 1; t <= 70; ++t) {
    int64_t covered = 0;
    for (const TreeNode& node : in_prefix(t)) {
      EXPECT_EQ(node.end - covered, int64_t{1} << node.level);
      covered = node.end;
    }
    EXPECT_EQ(covered, t);
  }
}

TEST(Tree, ARoundIsInAsManyNodesAsTheSensitivitySays) {
  for (int64_t rounds = 1; rounds <= 64; ++rounds) {
    int64_t most = 0;
    for (int64_t round = 1; round <= rounds; ++round) {
      int64_t nodes = 0;
      for (int64_t t = 1; t <= rounds; ++t) {
        const TreeNode node = tree_step(t).added;
        nodes += node.end - (int64_t{1} << node.level) < round && round <= node.end ? 1 : 0;
      }
      most = std::max(most, nodes);
    }
    EXPECT_EQ(most, tree_sensitivity_squared(rounds)) << rounds;
  }
  EXPECT_EQ(tree_sensitivity_squared(16), 5);
  // One epoch of 16 rounds, noise 2 a node.
  const auto curve = renyi_curve(discrete_gaussian_renyi(std::sqrt(5.0), 4));
  EXPECT_NEAR(epsilon_of(curve, 1e-5).epsilon, 5.377728, 1e-6);
}

}  // namespace
}  // namespace hanse
