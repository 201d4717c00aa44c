#include "hanse/rules/aggregation/quasi_newton.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "decompositions.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

namespace {

using Matrix = ByRows;
using GramMap = Eigen::Map<const Matrix>;
using Eigen::Index;
using Eigen::VectorXd;

constexpr double kLeastCosine = 1e-8;  // of a pair
constexpr double kMostCondition = 1e12;
constexpr double kLeastRemainder = 1e-4;  // of lengths that may cancel: rows are float32
constexpr double kLongest = 1000;         // of a c_k g_k: the exact sum of updates has a range
constexpr double kFirstRidge = 1e-12;     // relative to the mean of the diagonal
constexpr int kIterations = 12;           // to the eigenvalues at either end ...
constexpr double kClose = 4;              // ... of which they are within this factor
constexpr double kSettled = 1e-4;         // growth of the largest's estimate that no longer counts
constexpr double kLastRidge = 1e6;        // a Gram matrix never needs as much

// Do the c_k g_k cancel so far that little more than the rows' rounding is left of x?
bool cancels(const GramMap& g, const VectorXd& c) {
  const double lengths = c.cwiseAbs().dot(g.diagonal().cwiseSqrt());
  return std::sqrt(std::max(0.0, c.dot(g * c))) < kLeastRemainder * lengths;
}

// Estimates of M's eigenvalues at either end by iterations with M and M^-1: the largest from below,
// the least from above, each within a factor however close the next ones are (Kuczynski and
// Wozniakowski 1992). Cost: O(n^2).
struct Ends {
  VectorXd high;  // [n] of unit length, towards the largest one's vector
  double most = 0, least = 0;

  Ends(const Matrix& m, const Cholesky<Matrix>& factor) : high(m.rows()) {
    RandomStream stream(0, Purpose::kInitialize);
    for (double& x : high) x = stream.normal();
    high.normalize();
    VectorXd low = high;
    for (int i = 0; i < kIterations; ++i) {
      rise(m);
      low = factor.solve(low);
      least = 1 / low.norm();
      low *= least;
    }
  }

  void rise(const Matrix& m) {
    high = m * high;
    most = high.norm();
    high /= most;
  }
};

// Is M less the share of its largest eigenvalue that kMostCondition leaves positive definite? Cost:
// a factorization.
bool stays_definite(const Matrix& m, Ends ends) {
  for (double before = 0; ends.most - before > kSettled * ends.most;) {
    before = ends.most;
    for (int i = 0; i < kIterations; ++i) ends.rise(m);
  }
  Matrix rest = m;
  rest.diagonal().array() -= ends.most / kMostCondition;
  return Cholesky<Matrix>(std::move(rest)).exists();
}

// Solves (D M D) c = d for a matrix M of unit diagonal; empty when it is not well posed. One copy
// of M is held at once.
VectorXd solve_scaled(const Matrix& m, const VectorXd& scale, const VectorXd& d) {
  std::optional<Cholesky<Matrix>> factor(std::in_place, m);
  if (!factor->exists()) return {};
  const Ends ends(m, *factor);
  if (!(ends.least * kMostCondition >= ends.most / kClose)) return {};
  if (ends.least * kMostCondition < ends.most * kClose) {
    factor.reset();
    if (!stays_definite(m, ends)) return {};
    factor.emplace(m);
  }
  const VectorXd target = d.cwiseQuotient(scale);
  VectorXd c = factor->solve(target);
  c += factor->solve(target - m * c);
  return c.cwiseQuotient(scale);
}

// The least of the ridges kFirstRidge, ten times it and so on with which `solve` finds something,
// and what it finds. A larger ridge makes both easier, the condition and that terms do not cancel,
// so a few of them are tried.
template <class Solve>
std::pair<double, VectorXd> least_ridge(const Solve& solve) {
  std::vector<double> ridges;
  for (double ridge = kFirstRidge; ridge < kLastRidge; ridge *= 10) ridges.push_back(ridge);
  std::pair<double, VectorXd> least;
  std::size_t low = 0, high = ridges.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    VectorXd found = solve(ridges[middle]);
    if (found.size() == 0) {
      low = middle + 1;
      continue;
    }
    high = middle;
    least = {ridges[middle], std::move(found)};
  }
  if (least.second.size() > 0) return least;
  throw InvalidArgument("the inner products of the updates are no Gram matrix", "aggregator");
}

class DqnFed final : public Aggregator {
 public:
  DqnFed(double radius, int64_t backtrack) : radius_(radius), backtrack_(backtrack) {}

  AggregatorNeeds needs() const override {
    return {.losses = backtrack_ > 0,
            .gram = true,
            .rates = true,
            .trials = backtrack_,
            .directions = true,
            .matrices = 2,
            .cubes = 1};
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
  const GramMap all(gram.data(), k, k);
  std::vector<Index> used;
  for (Index i = 0; i < k; ++i) {
    if (all(i, i) > 0) used.push_back(i);
  }
  Mix solution{.coefficients = std::vector<double>(rates.size())};
  solution.direction.dropped = k - static_cast<int64_t>(used.size());
  if (used.empty()) return solution;
  const auto n = std::ssize(used);
  const Matrix some = n < k ? Matrix(all(used, used)) : Matrix();
  const GramMap g(n < k ? some.data() : all.data(), n, n);
  const VectorXd d = Eigen::Map<const VectorXd>(rates.data(), k)(used);
  const double mean = g.diagonal().mean();
  // The c of a ridge; empty: none is to be had, or its terms cancel.
  const auto solve = [&](double relative) {
    Matrix ridged = g;
    ridged.diagonal().array() += relative * mean;
    const VectorXd scale = ridged.diagonal().cwiseSqrt();
    const VectorXd inverse = scale.cwiseInverse();
    ridged.array().colwise() *= inverse.array();
    ridged.array().rowwise() *= inverse.transpose().array();
    VectorXd c = solve_scaled(ridged, scale, d);
    if (c.size() > 0 && cancels(g, c) && relative < 1) c.resize(0);
    return c;
  };
  VectorXd c = solve(0);
  if (c.size() == 0) {
    const auto [relative, found] = least_ridge(solve);
    solution.direction.ridge = relative * mean;
    c = found;
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
