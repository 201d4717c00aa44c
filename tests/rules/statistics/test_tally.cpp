// Sums that do not depend on the order of their terms.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/statistics/tally.hpp"
#include "statistics/elementary.hpp"

namespace hanse {
namespace {

std::vector<double> random_terms(std::size_t n, double bound, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-bound, bound);
  std::vector<double> terms(n);
  for (double& term : terms)
    term = uniform(random) * std::ldexp(1, -static_cast<int>(random() % 40));
  return terms;
}

// The definition: every term rounded to a whole number of units, half to even.
__int128 units_of(const std::vector<double>& terms, double bound) {
  __int128 sum = 0;
  for (const double term : terms) sum += std::llrint(std::ldexp(term, 42 - tally_exponent(bound)));
  return sum;
}

Tally tally_of(const std::vector<double>& terms, double bound) {
  Tally tally(1, bound);
  for (const double term : terms) {
    tally.next_sample();
    tally.add(0, term);
  }
  return tally;
}

TEST(Tally, ExponentIsTheLeastPowerOfTwoAboveTheBound) {
  EXPECT_EQ(tally_exponent(0), 0);
  EXPECT_EQ(tally_exponent(1), 0);
  EXPECT_EQ(tally_exponent(1.0000001), 1);
  EXPECT_EQ(tally_exponent(0.25), -2);
  EXPECT_EQ(tally_exponent(3), 2);
  EXPECT_THROW(tally_exponent(std::nan("")), Error);
  EXPECT_THROW(tally_exponent(std::numeric_limits<double>::infinity()), Error);
}

TEST(Tally, IsTheSumOfRoundedTerms) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1023}, std::size_t{1024},
                              std::size_t{1025}, std::size_t{5000}}) {
    for (const double bound : {1.0, 3.7, 1e-12, 1e15}) {
      const auto terms = random_terms(n, bound, static_cast<unsigned>(n) + 1);
      Tally tally = tally_of(terms, bound);
      EXPECT_EQ(tally.value(0), static_cast<double>(units_of(terms, bound)) *
                                    std::ldexp(1, tally_exponent(bound) - 42));
    }
  }
}

// All terms at the bound: partial sums are as large as they can be.
TEST(Tally, HoldsTheLargestTerms) {
  const std::vector<double> terms(10000, -4.0);
  EXPECT_EQ(tally_of(terms, 4).value(0), -40000.0);
}

TEST(Tally, DoesNotDependOnOrderNorOnParts) {
  auto terms = random_terms(3001, 2, 5);
  Tally whole = tally_of(terms, 2);
  std::mt19937_64 random(9);
  std::ranges::shuffle(terms, random);
  const std::size_t cuts[] = {0, 1, 1025, 1100, 3001};
  std::vector<int64_t> limbs(4, 0);
  for (std::size_t part = 0; part + 1 < std::size(cuts); ++part) {
    const std::vector<double> own(terms.begin() + static_cast<std::ptrdiff_t>(cuts[part]),
                                  terms.begin() + static_cast<std::ptrdiff_t>(cuts[part + 1]));
    const auto own_limbs = tally_of(own, 2).limbs();
    for (std::size_t k = 0; k < 4; ++k) limbs[k] += own_limbs[k];
  }
  Tally joined(1, 2);
  joined.set_limbs(limbs);
  EXPECT_EQ(joined.value(0), whole.value(0));
  EXPECT_EQ(joined.limbs(), whole.limbs());  // limbs of a sum are normal again
}

TEST(Tally, ProductsAreThoseOfTheDefinition) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{8}, std::size_t{13}}) {
    Tally fast(packed_size(n) + 1, 1), slow(packed_size(n) + 1, 1);
    for (unsigned sample = 0; sample < 1500; ++sample) {
      const auto x = random_terms(n, 1, sample);
      fast.next_sample();
      slow.next_sample();
      fast.add_products(1, 0.3, x);
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t k = 0; k <= j; ++k) slow.add(1 + packed_place(j, k), 0.3 * x[j] * x[k]);
      }
    }
    EXPECT_EQ(fast.limbs(), slow.limbs());
    EXPECT_EQ(fast.value(0), 0);
  }
}

TEST(Tally, RefusesATermBeyondItsBound) {
  Tally tally(1, 1);
  for (int i = 0; i < 1024; ++i) {
    tally.next_sample();
    tally.add(0, 1.5);
  }
  EXPECT_THROW(tally.value(0), Error);
  Tally undefined(1, 1);
  undefined.next_sample();
  undefined.add(0, std::nan(""));
  EXPECT_THROW(undefined.limbs(), Error);
}

TEST(Elementary, FollowsTheMathematicalFunctions) {
  for (double x = -40; x < 40; x += 0.0137) {
    EXPECT_NEAR(exp_of(x) / std::exp(x), 1, 6e-16) << x;
    EXPECT_NEAR(logistic_of(x), 1 / (1 + std::exp(-x)), 4e-16) << x;
    EXPECT_NEAR(softplus_of(x) / std::log1p(std::exp(x)), 1, x < -20 ? 2e-15 : 8e-16) << x;
    const double y = std::exp(x);
    EXPECT_NEAR(log_of(y), std::log(y), 3e-16 * std::max(1.0, std::abs(x))) << x;
  }
  EXPECT_EQ(log_of(1), 0);
  EXPECT_EQ(exp_of(0), 1);
  EXPECT_EQ(exp_of(-1000), 0);
}

}  // namespace
}  // namespace hanse
