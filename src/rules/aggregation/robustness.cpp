#include "hanse/rules/aggregation/robustness.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hanse {

namespace {

constexpr double kCancelled = 1e-13;  // of a squared length whose terms cancel

double ratio(double above, double below) {
  if (above == 0) return 0;
  return below > 0 ? above / below : std::numeric_limits<double>::infinity();
}

// A squared length of a combination of rows; 0 when it is nothing but rounding of terms whose
// lengths add up to `terms`.
double beyond_rounding(double square, double terms) {
  return square > kCancelled * terms * terms ? square : 0;
}

// sum |a_i| |u_i|.
double sum_of_lengths(const GramView& gram, std::span<const double> a) {
  double terms = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != 0) terms += std::abs(a[i]) * std::sqrt(gram(i, i));
  }
  return terms;
}

}  // namespace

Robustness measure_robustness(const GramView& gram, std::span<const double> coefficients,
                              std::span<const char> honest) {
  const auto count = static_cast<double>(std::ranges::count(honest, char{1}));
  std::vector<double> e(gram.n), unit(gram.n);
  for (std::size_t i = 0; i < gram.n; ++i) e[i] = honest[i] ? 1 / count : 0;
  const double mean_square = gram.product(e, e), mean_terms = sum_of_lengths(gram, e);
  Robustness result;
  double spread = 0;
  for (std::size_t i = 0; i < gram.n; ++i) {
    if (!honest[i]) {
      result.byzantine_weight += coefficients[i];
      continue;
    }
    result.honest_recall += coefficients[i] > 0 ? 1 / count : 0;
    unit[i] = 1;
    const double square = gram(i, i) - 2 * gram.product(unit, e) + mean_square;  // |u_i - ubar|^2
    unit[i] = 0;
    spread += beyond_rounding(square, mean_terms + std::sqrt(gram(i, i))) / count;
  }
  std::vector<double> error(coefficients.begin(), coefficients.end());
  for (std::size_t i = 0; i < gram.n; ++i) error[i] -= e[i];
  const double away = beyond_rounding(gram.product(error, error), sum_of_lengths(gram, error));
  result.kappa = ratio(away, spread);
  return result;
}

void ColumnDeviations::add(const ColumnDeviations& block) {
  step += block.step;
  honest += block.honest;
  shares += block.shares;
  columns += block.columns;
}

void ColumnDeviations::add(std::span<const double> x, std::span<const float* const> rows,
                           std::span<const double> byzantine_shares) {
  std::vector<double> mean(x.size()), squares(x.size());
  for (const float* row : rows) {
    for (std::size_t j = 0; j < x.size(); ++j) mean[j] += row[j];
  }
  for (double& one : mean) one /= static_cast<double>(rows.size());
  for (const float* row : rows) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double away = row[j] - mean[j];
      squares[j] += away * away;
    }
  }
  for (std::size_t j = 0; j < x.size(); ++j) {
    step += (x[j] - mean[j]) * (x[j] - mean[j]);
    honest += squares[j];
    if (!byzantine_shares.empty()) shares += byzantine_shares[j];
  }
  columns += std::ssize(x);
}

Robustness ColumnDeviations::result(int64_t honest_rows) const {
  return {.kappa = ratio(step, honest / static_cast<double>(honest_rows)),
          .byzantine_weight = columns > 0 ? shares / static_cast<double>(columns) : 0,
          .honest_recall = std::numeric_limits<double>::quiet_NaN()};
}

}  // namespace hanse
