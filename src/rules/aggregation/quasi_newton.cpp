#include "hanse/rules/aggregation/quasi_newton.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "decompositions.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

using Matrix = ByRows;
using Eigen::Index;
using Eigen::VectorXd;

constexpr double kLeastCosine = 1e-8;  // of a pair
constexpr double kMostCondition = 1e12;
constexpr double kLeastRemainder = 1e-4;  // of lengths that may cancel: rows are float32
constexpr double kLongest = 1000;         // of a c_k g_k: the exact sum of updates has a range
constexpr double kFirstRidge = 1e-12;     // relative to the mean of the diagonal
constexpr double kLastRidge = 1e6;        // a Gram matrix never needs as much

// Do the c_k g_k cancel so far that little more than the rows' rounding is left of x?
bool cancels(const Matrix& g, const VectorXd& c) {
  const double lengths = c.cwiseAbs().dot(g.diagonal().cwiseSqrt());
  return std::sqrt(std::max(0.0, c.dot(g * c))) < kLeastRemainder * lengths;
}

// Solves (D M D) c = d for a matrix M of unit diagonal; empty when it is not well posed.
VectorXd solve_scaled(const Matrix& m, const VectorXd& scale, const VectorXd& d) {
  const VectorXd values = eigenvalues_of(m);
  const Cholesky<Matrix> factor(m);
  if (!(values[0] * kMostCondition >= values[m.rows() - 1]) || !factor.exists()) return {};
  const VectorXd target = d.cwiseQuotient(scale);
  VectorXd c = factor.solve(target);
  c += factor.solve(target - m * c);
  return c.cwiseQuotient(scale);
}

class DqnFed final : public Aggregator {
 public:
  DqnFed(double radius, int64_t backtrack) : radius_(radius), backtrack_(backtrack) {}

  AggregatorNeeds needs() const override {
    return {.losses = backtrack_ > 0,
            .gram = true,
            .rates = true,
            .trials = backtrack_,
            .directions = true};
  }

  Mix mix(const RoundReport& report) override {
    for (std::size_t i = 0; i < report.rates.size(); ++i) {
      if (std::isfinite(report.rates[i]) && report.rates[i] >= 0) continue;
      const std::string what =
          fmt::format("the rate of participant {} is {}", i, number_text(report.rates[i]));
      const char* hint = "rates are finite and not negative";
      if (!std::isfinite(report.rates[i])) throw NotFinite(what, "", hint);
      throw InvalidArgument(what, "aggregator", hint);
    }
    Mix mix = solve_rates(report.gram, report.rates);
    mix.direction.scale = share_of_step(report.gram, mix);
    return mix;
  }

  bool accepts(std::span<const double> before, std::span<const double> after) const override {
    return std::equal(after.begin(), after.end(), before.begin(), std::less_equal<>());
  }

 private:
  // t = min(1, radius/|x|, kLongest/max |c_k g_k|).
  double share_of_step(std::span<const double> gram, const Mix& mix) const {
    const std::size_t k = mix.coefficients.size();
    double longest = 0;
    for (std::size_t i = 0; i < k; ++i) {
      longest = std::max(longest, std::abs(mix.coefficients[i]) * std::sqrt(gram[i * k + i]));
    }
    double share = longest > kLongest ? kLongest / longest : 1;
    const double length = std::sqrt(mix.direction.squared_norm);
    if (radius_ > 0 && length > radius_) share = std::min(share, radius_ / length);
    return share;
  }

  double radius_;
  int64_t backtrack_;
};

}  // namespace

bool has_curvature(double s_s, double s_y, double y_y) {
  return s_y > kLeastCosine * std::sqrt(s_s * y_y) && s_y > 0;
}

double lbfgs_rate(std::span<const double> gram, int64_t n) {
  const Index size = 2 * n + 1;
  const Eigen::Map<const Matrix> g(gram.data(), size, size);
  VectorXd q = VectorXd::Unit(size, size - 1);  // V_i ... V_n g in terms of the s, the y and g
  double rate = 0;
  for (Index i = n - 1; i >= 0; --i) {
    const Index s = 2 * i;
    const Index y = 2 * i + 1;
    const double curvature = g(s, y);                  // s_i.y_i
    const double alpha = g.row(s).dot(q) / curvature;  // rho_i s_i.q
    rate += alpha * alpha * curvature;                 // rho_i (s_i.q)^2
    q[y] -= alpha;                                     // q <- q - alpha_i y_i
  }
  const double scale = g(2 * n - 2, 2 * n - 1) / g(2 * n - 1, 2 * n - 1);  // s.y / y.y
  return rate + scale * std::max(0.0, q.dot(g * q));
}

Mix solve_rates(std::span<const double> gram, std::span<const double> rates) {
  const auto k = static_cast<Index>(rates.size());
  const Eigen::Map<const Matrix> all(gram.data(), k, k);
  std::vector<Index> used;
  for (Index i = 0; i < k; ++i) {
    if (all(i, i) > 0) used.push_back(i);
  }
  Mix solution{.coefficients = std::vector<double>(rates.size())};
  solution.direction.dropped = k - static_cast<int64_t>(used.size());
  if (used.empty()) return solution;
  const Matrix g = all(used, used);
  const VectorXd d = Eigen::Map<const VectorXd>(rates.data(), k)(used);
  VectorXd c;
  for (double relative = 0; c.size() == 0; relative = std::max(kFirstRidge, 10 * relative)) {
    if (!(relative < kLastRidge)) {
      throw InvalidArgument("the inner products of the updates are no Gram matrix", "aggregator");
    }
    solution.direction.ridge = relative * g.diagonal().mean();
    Matrix ridged = g;
    ridged.diagonal().array() += solution.direction.ridge;
    const VectorXd scale = ridged.diagonal().cwiseSqrt();
    const VectorXd inverse = scale.cwiseInverse();
    c = solve_scaled(inverse.asDiagonal() * ridged * inverse.asDiagonal(), scale, d);
    if (c.size() > 0 && cancels(g, c) && relative < 1) c.resize(0);
  }
  solution.direction.squared_norm = std::max(0.0, c.dot(g * c));
  for (std::size_t i = 0; i < used.size(); ++i) {
    solution.coefficients[static_cast<std::size_t>(used[i])] = c[static_cast<Index>(i)];
  }
  return solution;
}

std::unique_ptr<Aggregator> make_dqn_fed(double radius, int64_t backtrack) {
  return std::make_unique<DqnFed>(radius, backtrack);
}

}  // namespace hanse
