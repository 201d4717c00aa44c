// Pearson's test, for streams of a fixed seed: a test that passes once always passes.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace hanse {

// The 99.99 % quantile of chi-square with `freedom` degrees (Wilson and Hilferty 1931).
inline double chi_square_bound(double freedom) {
  const double spread = 2.0 / (9.0 * freedom);
  return freedom * std::pow(1.0 - spread + 3.719 * std::sqrt(spread), 3);
}

inline void expect_frequencies(const std::vector<int64_t>& counts,
                               const std::vector<double>& probabilities) {
  ASSERT_EQ(counts.size(), probabilities.size());
  double draws = 0;
  for (const int64_t count : counts) draws += static_cast<double>(count);
  double statistic = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probabilities[i];
    const double off = static_cast<double>(counts[i]) - expected;
    statistic += off * off / expected;
  }
  EXPECT_LT(statistic, chi_square_bound(static_cast<double>(counts.size() - 1)));
}

inline void expect_equally_likely(const std::vector<int64_t>& counts) {
  expect_frequencies(counts,
                     std::vector<double>(counts.size(), 1.0 / static_cast<double>(counts.size())));
}

}  // namespace hanse
