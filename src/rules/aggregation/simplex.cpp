#include "hanse/rules/aggregation/simplex.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <Eigen/Cholesky>

#include "hanse/base/error.hpp"

namespace hanse {

std::vector<double> project_to_simplex(std::span<const double> v) {
  // Distances to the largest entry: the shift changes nothing, and keeps large entries exact.
  const double largest = *std::max_element(v.begin(), v.end());
  std::vector<double> falling(v.begin(), v.end());
  for (double& x : falling) x -= largest;
  std::sort(falling.begin(), falling.end(), std::greater<>());
  double sum = 0;
  double tau = 0;
  for (std::size_t k = 0; k < falling.size(); ++k) {
    sum += falling[k];
    const double candidate = (sum - 1) / static_cast<double>(k + 1);
    if (falling[k] > candidate) tau = candidate;
  }
  std::vector<double> p(v.size());
  std::transform(v.begin(), v.end(), p.begin(),
                 [&](double x) { return std::max(0.0, (x - largest) - tau); });
  return p;
}

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::VectorXd;
using Support = std::vector<Eigen::Index>;

// The minimiser with p = 0 off the support, disregarding p >= 0 on it.
struct Stationary {
  VectorXd p;    // [K]
  double level;  // the gradient's common value on the support
};

class Problem {
 public:
  Problem(std::span<const double> h, std::span<const double> c)
      : h_(h.data(), static_cast<Eigen::Index>(c.size()), static_cast<Eigen::Index>(c.size())),
        c_(c.data(), static_cast<Eigen::Index>(c.size())) {}

  Eigen::Index size() const { return c_.size(); }
  VectorXd gradient(const VectorXd& p) const { return h_ * p + c_; }

  // H_SS p_S = level 1 - c_S with sum p_S = 1.
  Stationary solve_on(const Support& support) const {
    const auto n = static_cast<Eigen::Index>(support.size());
    const Matrix hs = h_(support, support);
    const Eigen::LLT<Matrix> factor(hs);
    if (factor.info() != Eigen::Success) {
      throw InvalidArgument("the quadratic form is not positive definite", "aggregator",
                            "alpha must be above 0, and the losses finite");
    }
    const VectorXd cs = c_(support);
    const VectorXd ones = VectorXd::Ones(n);
    const VectorXd u = factor.solve(ones);
    VectorXd v = factor.solve(cs);
    double level = (1 + v.sum()) / u.sum();
    VectorXd ps = level * u - v;
    // One step of iterative refinement, on both equations.
    const VectorXd residual = level * ones - cs - hs * ps;
    const VectorXd correction = factor.solve(residual);
    const double shift = (1 - ps.sum() - correction.sum()) / u.sum();
    ps += correction + shift * u;
    level += shift;
    Stationary result{VectorXd::Zero(size()), level};
    result.p(support) = ps;
    return result;
  }

 private:
  Eigen::Map<const Matrix> h_;
  Eigen::Map<const VectorXd> c_;
};

struct Infeasible {
  Support drop;  // negative entries of the support
  Support add;   // entries off it whose gradient is below the level
};

Infeasible infeasible(const Problem& problem, const Support& support, const Stationary& found) {
  const VectorXd gradient = problem.gradient(found.p);
  const double slack = 1e-13 * std::max(1.0, gradient.cwiseAbs().maxCoeff());
  std::vector<char> on(static_cast<std::size_t>(problem.size()), 0);
  Infeasible result;
  for (const auto i : support) {
    on[static_cast<std::size_t>(i)] = 1;
    if (found.p[i] < 0) result.drop.push_back(i);
  }
  for (Eigen::Index i = 0; i < problem.size(); ++i) {
    if (!on[static_cast<std::size_t>(i)] && gradient[i] < found.level - slack) {
      result.add.push_back(i);
    }
  }
  return result;
}

// Exchanges the infeasible entries: all of them, or only the last one. The latter is Murty's rule,
// which ends: with H' = H + c 1^T + 1 c^T + s 1 1^T (positive definite for s > c.H^-1 c) the
// problem is the complementarity problem w = H' y - 1, w >= 0, y >= 0, w.y = 0 with p = y / sum y,
// and the sets visited here are those of principal pivoting on it.
void exchange(Support& support, const Infeasible& wrong, bool all) {
  Support drop = wrong.drop;
  Support add = wrong.add;
  if (!all) {
    const bool drops = add.empty() || (!drop.empty() && drop.back() > add.back());
    if (drops) {
      drop = {drop.back()};
      add.clear();
    } else {
      add = {add.back()};
      drop.clear();
    }
  }
  Support next;
  std::set_difference(support.begin(), support.end(), drop.begin(), drop.end(),
                      std::back_inserter(next));
  support.clear();
  std::merge(next.begin(), next.end(), add.begin(), add.end(), std::back_inserter(support));
}

}  // namespace

std::vector<double> minimize_on_simplex(std::span<const double> h, std::span<const double> c,
                                        std::span<const double> start) {
  const Problem problem(h, c);
  Support support;
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (start[i] > 0) support.push_back(static_cast<Eigen::Index>(i));
  }
  std::size_t fewest = start.size() + 1;  // infeasible entries so far
  int patience = 3;                       // full exchanges that may fail to lower it
  for (;;) {
    const Stationary found = problem.solve_on(support);
    const Infeasible wrong = infeasible(problem, support, found);
    const std::size_t count = wrong.drop.size() + wrong.add.size();
    if (count == 0) return {found.p.begin(), found.p.end()};
    if (count < fewest) {
      fewest = count;
      patience = 3;
    } else {
      --patience;
    }
    exchange(support, wrong, patience > 0);
    if (support.empty()) support.push_back(problem.size() - 1);  // what the rule adds to nothing
  }
}

double kkt_residual(std::span<const double> h, std::span<const double> c,
                    std::span<const double> p) {
  const Problem problem(h, c);
  const VectorXd point = Eigen::Map<const VectorXd>(p.data(), problem.size());
  const VectorXd gradient = problem.gradient(point);
  double level = std::numeric_limits<double>::infinity();
  for (Eigen::Index i = 0; i < point.size(); ++i) level = std::min(level, gradient[i]);
  double worst = std::abs(point.sum() - 1);
  for (Eigen::Index i = 0; i < point.size(); ++i) {
    worst = std::max(worst, -point[i]);
    if (point[i] > 0) worst = std::max(worst, gradient[i] - level);
  }
  return worst / std::max(1.0, gradient.cwiseAbs().maxCoeff());
}

}  // namespace hanse
