// A rule by columns that is the user's own: a function of blocks of columns, on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hanse/base/index.hpp"
#include "hanse/base/state.hpp"
#include "hanse/rules/aggregation/column_rules.hpp"

namespace hanse {

class ColumnFunction {
 public:
  virtual ~ColumnFunction() = default;
  // Begins a round with the state that the rule, an Aggregator on rank 0, has saved after mix().
  virtual void begin(int64_t round, const State& state) = 0;
  // Writes the step [width] of a block of columns: values [n, width] of rows that count `weights`
  // [n]. It must be a function of these and of the state: ranks compute blocks in no order. Throws
  // InvalidArgument when the rule fails or gives what is not finite.
  virtual void step(std::span<const double> values, std::span<const double> weights,
                    std::span<double> out) = 0;
};

// Writes the values [n, width] of mix.map times `rows` (K rows of `width` values), in float64 in
// the order of the rows. Rows that count 0 everywhere may hold anything.
template <class Real>
void map_values(const ColumnMix& mix, std::span<const Real* const> rows, std::span<double> out) {
  const std::size_t n = to_index(mix.n), width = n > 0 ? out.size() / n : 0;
  for (std::size_t a = 0; a < n; ++a) {
    const auto sum = out.subspan(a * width, width);
    for (double& value : sum) value = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double weight = mix.map[a * rows.size() + i];
      for (std::size_t j = 0; weight != 0 && j < width; ++j) {
        sum[j] += weight * static_cast<double>(rows[i][j]);
      }
    }
  }
}

}  // namespace hanse
