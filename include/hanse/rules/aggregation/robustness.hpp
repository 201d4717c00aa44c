// What a robust rule did in a round, measured: a simulation knows who is honest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/rules/aggregation/gram_view.hpp"

namespace hanse {

struct Robustness {
  double kappa = 0;             // |F - ubar_H|^2 over the honest rows' mean squared deviation
  double byzantine_weight = 0;  // the sum of the coefficients of byzantine rows
  double honest_recall = 0;     // the share of honest rows that have a positive coefficient
};

// Measures F = sum c_i u_i. With e_i = 1/|H| for honest rows and 0 for the others,
//   kappa = (c - e)^T G (c - e) / ((1/|H|) sum_{i in H} |u_i - ubar_H|^2).
// 0/0, where all honest rows are alike and F is their mean, is 0; x/0 is infinity. The numerator is
// 0 where it is nothing but rounding. `honest` [n]: is the row honest? REQUIRES: one of them is.
// Cost: O(n^2).
Robustness measure_robustness(const GramView& gram, std::span<const double> coefficients,
                              std::span<const char> honest);

// The same of a step x that is no combination of the rows, block by block of their columns. Sums
// are added in the order of the columns.
struct ColumnDeviations {
  double step = 0;    // sum over the columns of (x - ubar_H)^2
  double honest = 0;  // sum over the columns of sum_{i in H} (u_i - ubar_H)^2
  double shares = 0;  // sum over the columns of the byzantine share of the values in x
  int64_t columns = 0;

  void add(const ColumnDeviations& block);
  // Adds a block: x [P], the honest rows' values [|H|, P], and the shares [P], or none: 0.
  void add(std::span<const double> x, std::span<const float* const> rows,
           std::span<const double> byzantine_shares);
  // kappa of `honest_rows` rows, and the mean share; honest_recall is NaN.
  Robustness result(int64_t honest_rows) const;
};

}  // namespace hanse
