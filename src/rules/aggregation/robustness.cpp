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

// |sum a_i u_i|^2; 0 when it is nothing but rounding.
double length_beyond_rounding(const GramView& gram, std::span<const double> a) {
  double terms = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != 0) terms += std::abs(a[i]) * std::sqrt(gram(i, i));
  }
  const double square = gram.product(a, a);
  return square > kCancelled * terms * terms ? square : 0;
}

}  // namespace

Robustness measure_robustness(const GramView& gram, std::span<const double> coefficients,
                              std::span<const char> honest) {
  const auto count = static_cast<double>(std::ranges::count(honest, char{1}));
  std::vector<double> e(gram.n);
  for (std::size_t i = 0; i < gram.n; ++i) e[i] = honest[i] ? 1 / count : 0;
  Robustness result;
  double spread = 0;
  for (std::size_t i = 0; i < gram.n; ++i) {
    if (!honest[i]) {
      result.byzantine_weight += coefficients[i];
      continue;
    }
    result.honest_recall += coefficients[i] > 0 ? 1 / count : 0;
    std::vector<double> away = e;  // ubar_H - u_i
    away[i] -= 1;
    spread += length_beyond_rounding(gram, away) / count;
  }
  std::vector<double> error(coefficients.begin(), coefficients.end());
  for (std::size_t i = 0; i < gram.n; ++i) error[i] -= e[i];
  result.kappa = ratio(length_beyond_rounding(gram, error), spread);
  return result;
}

void ColumnDeviations::add(std::span<const double> x, std::span<const float* const> rows,
                           std::span<const double> byzantine_shares) {
  for (std::size_t j = 0; j < x.size(); ++j) {
    double mean = 0;
    for (const float* row : rows) mean += row[j];
    mean /= static_cast<double>(rows.size());
    step += (x[j] - mean) * (x[j] - mean);
    for (const float* row : rows) honest += (row[j] - mean) * (row[j] - mean);
    shares += byzantine_shares[j];
  }
  columns += std::ssize(x);
}

Robustness ColumnDeviations::result(int64_t honest_rows) const {
  return {.kappa = ratio(step, honest / static_cast<double>(honest_rows)),
          .byzantine_weight = columns > 0 ? shares / static_cast<double>(columns) : 0,
          .honest_recall = std::numeric_limits<double>::quiet_NaN()};
}

double least_kappa(int64_t n, int64_t f) {
  return static_cast<double>(f) / static_cast<double>(n - 2 * f);
}

double proven_kappa(RobustKind kind, int64_t n, int64_t f, bool after_nnm) {
  const double least = least_kappa(n, f);
  double kappa = std::numeric_limits<double>::quiet_NaN();
  switch (kind) {
    case RobustKind::kTrimmedMean: kappa = 6 * least * (1 + least); break;
    case RobustKind::kKrum: kappa = 6 * (1 + least); break;
    case RobustKind::kGeometricMedian:
    case RobustKind::kMedian: kappa = 4 * (1 + least) * (1 + least); break;
    default: break;
  }
  if (!after_nnm) return kappa;
  return 8 * static_cast<double>(f) / static_cast<double>(n - f) * (kappa + 1);
}

}  // namespace hanse
