// The inner products of a round's rows, as robust rules and attacks look at them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace hanse {

// entries [n, n], row-major and symmetric: u_i.u_j. The entries must outlive the view.
struct GramView {
  std::span<const double> entries;
  std::size_t n = 0;

  double operator()(std::size_t i, std::size_t j) const { return entries[i * n + j]; }
  // |u_i - u_j|^2 = G_ii + G_jj - 2 G_ij; 0 where rounding makes it negative, and for i = j.
  double squared_distance(std::size_t i, std::size_t j) const {
    if (i == j) return 0;
    return std::max(0.0, (*this)(i, i) + (*this)(j, j) - 2 * (*this)(i, j));
  }
  // (sum_i a_i u_i).(sum_j b_j u_j), of the rows before a.size() and b.size(). Rows that count 0 in
  // both may have products that are not finite. Cost: O(n^2).
  double product(std::span<const double> a, std::span<const double> b) const {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == 0) continue;
      double row = 0;
      for (std::size_t j = 0; j < b.size(); ++j) {
        if (b[j] != 0) row += (*this)(i, j) * b[j];
      }
      sum += a[i] * row;
    }
    return sum;
  }
};

}  // namespace hanse
