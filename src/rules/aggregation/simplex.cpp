#include "simplex.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "decompositions.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

using Matrix = ByRows;
using Eigen::Index;
using Eigen::VectorXd;

enum class Place : char { kLower, kFree, kUpper };
using Face = std::vector<Place>;  // [K] which entries lie at a bound

// The minimiser on the plane sum p = 1 of a face, disregarding the bounds of its free entries.
struct Stationary {
  VectorXd p;    // [K]
  double level;  // the gradient's common value on the free entries
};

struct Problem {
  Problem(std::span<const double> form, std::span<const double> linear, const Box& box)
      : h(form.data(), std::ssize(linear), std::ssize(linear)),
        c(linear.data(), std::ssize(linear)),
        low(VectorXd::Zero(size())),
        high(VectorXd::Constant(size(), std::numeric_limits<double>::infinity())) {
    std::copy(box.lower.begin(), box.lower.end(), low.begin());
    std::copy(box.upper.begin(), box.upper.end(), high.begin());
  }

  Index size() const { return c.size(); }
  VectorXd gradient(const VectorXd& p) const { return h * p + c; }

  Face face_of(const VectorXd& p) const {
    Face face(to_index(size()), Place::kFree);
    for (Index i = 0; i < size(); ++i) {
      if (p[i] >= high[i]) face[to_index(i)] = Place::kUpper;
      if (p[i] <= low[i]) face[to_index(i)] = Place::kLower;
    }
    return face;
  }

  // H_FF p_F = level 1 - c_F - H_FB p_B with sum p = 1, B the entries at bounds.
  // REQUIRES: an entry is free.
  Stationary solve_on(const Face& face) const {
    Stationary result{VectorXd::Zero(size()), 0};
    std::vector<Index> free;
    for (Index i = 0; i < size(); ++i) {
      if (face[to_index(i)] == Place::kFree) free.push_back(i);
      if (face[to_index(i)] == Place::kLower) result.p[i] = low[i];
      if (face[to_index(i)] == Place::kUpper) result.p[i] = high[i];
    }
    const double rest = 1 - result.p.sum();
    const bool at_zero = rest == 1 && (result.p.array() == 0).all();
    const VectorXd linear = at_zero ? VectorXd(c(free)) : VectorXd(gradient(result.p)(free));
    const Matrix part = std::ssize(free) < size() ? Matrix(h(free, free)) : Matrix();
    const Eigen::Map<const Matrix> quadratic(part.size() > 0 ? part.data() : h.data(),
                                             linear.size(), linear.size());
    const Cholesky<Matrix> factor(quadratic);
    if (!factor.exists()) {
      throw InvalidArgument("the quadratic form is not positive definite", "aggregator",
                            "alpha must be above 0, and the losses finite");
    }
    const VectorXd ones = VectorXd::Ones(linear.size());
    const VectorXd u = factor.solve(ones);
    const VectorXd v = factor.solve(linear);
    const double level = (rest + v.sum()) / u.sum();
    VectorXd p = level * u - v;
    // One step of iterative refinement, on both equations.
    const VectorXd residual = level * ones - linear - quadratic * p;
    const VectorXd correction = factor.solve(residual);
    const double shift = (rest - p.sum() - correction.sum()) / u.sum();
    p += correction + shift * u;
    for (Index i = 0; i < p.size(); ++i) result.p[free[to_index(i)]] = p[i];
    result.level = level + shift;
    return result;
  }

  Eigen::Map<const Matrix> h;
  Eigen::Map<const VectorXd> c;
  VectorXd low;   // [K]
  VectorXd high;  // [K]
};

// Puts every entry that breaks its condition where it belongs; returns how many did.
int64_t exchange_all(const Problem& problem, const Stationary& found, Face& face) {
  const VectorXd gradient = problem.gradient(found.p);
  const double slack = 1e-13 * std::max(1.0, gradient.cwiseAbs().maxCoeff());
  int64_t wrong = 0;
  for (Index i = 0; i < problem.size(); ++i) {
    const double low = problem.low[i];
    const double high = problem.high[i];
    Place& place = face[to_index(i)];
    const Place before = place;
    if (before == Place::kFree) {
      if (found.p[i] < low) place = Place::kLower;
      if (found.p[i] > high) place = Place::kUpper;
    } else if (low < high) {
      const double excess = gradient[i] - found.level;
      if (before == Place::kLower ? excess < -slack : excess > slack) place = Place::kFree;
    }
    wrong += place != before;
  }
  return wrong;
}

bool has_free(const Face& face) {
  return std::find(face.begin(), face.end(), Place::kFree) != face.end();
}

// A point of sum 1 in the box near p.
VectorXd feasible_point(const Problem& problem, const VectorXd& start) {
  const VectorXd& low = problem.low;
  const double room = std::max(0.0, 1 - low.sum());
  const VectorXd high = problem.high.cwiseMin((low.array() + room).matrix());  // no more can be had
  const VectorXd p = start.cwiseMax(low).cwiseMin(high);
  const double sum = p.sum();
  if (sum > 1 && sum > low.sum()) return low + (p - low) * (room / (sum - low.sum()));
  if (sum < 1 && sum < high.sum()) {
    return high - (high - p) * (std::max(0.0, high.sum() - 1) / (high.sum() - sum));
  }
  return p;
}

// The share of `step`, at most 1, that entry i can go.
double share_in_box(const Problem& problem, Index i, double p, double step) {
  if (step == 0) return 1;
  const double bound = step < 0 ? problem.low[i] : problem.high[i];
  return std::clamp((bound - p) / step, 0.0, 1.0);
}

// Moves the feasible p towards each face's minimiser, and fixes what runs into a bound, until the
// minimiser lies in the box.
void descend(const Problem& problem, VectorXd& p, Face& face) {
  while (has_free(face)) {
    const VectorXd target = problem.solve_on(face).p;
    const VectorXd step = target - p;
    VectorXd shares = VectorXd::Ones(p.size());
    for (Index i = 0; i < p.size(); ++i) {
      const bool free = face[to_index(i)] == Place::kFree;
      if (free) shares[i] = share_in_box(problem, i, p[i], step[i]);
    }
    const double share = shares.minCoeff();
    if (share == 1) {
      p = target;
      return;
    }
    for (Index i = 0; i < p.size(); ++i) {
      Place& place = face[to_index(i)];
      if (place != Place::kFree) continue;
      p[i] += share * step[i];
      if (shares[i] > share) continue;
      place = step[i] < 0 ? Place::kLower : Place::kUpper;
      p[i] = step[i] < 0 ? problem.low[i] : problem.high[i];
    }
  }
}

// Frees the pair of entries that violate optimality most: the first may rise and has the smallest
// gradient, the second may fall and has the largest. False: p is optimal.
bool free_worst_pair(const Problem& problem, const VectorXd& p, Face& face) {
  const VectorXd gradient = problem.gradient(p);
  Index rises = -1;
  Index falls = -1;
  for (Index i = 0; i < problem.size(); ++i) {
    const bool may_rise = p[i] < problem.high[i];
    const bool may_fall = p[i] > problem.low[i];
    if (may_rise && (rises < 0 || gradient[i] < gradient[rises])) rises = i;
    if (may_fall && (falls < 0 || gradient[i] > gradient[falls])) falls = i;
  }
  if (rises < 0 || falls < 0) return false;  // a box of one point
  const double slack = 1e-13 * std::max(1.0, gradient.cwiseAbs().maxCoeff());
  if (gradient[falls] - gradient[rises] <= slack) return false;
  face[to_index(rises)] = Place::kFree;
  face[to_index(falls)] = Place::kFree;
  return true;
}

// The active-set method. From a face's minimiser, freeing a violating pair makes a step of positive
// length possible, since all other free entries lie strictly inside: the value falls from one
// minimiser to the next, so none comes twice, and faces are finitely many. That a face does come
// again therefore means that only rounding is left.
VectorXd active_set(const Problem& problem, VectorXd p) {
  Face face = problem.face_of(p);
  std::set<Face> seen;
  do {
    descend(problem, p, face);
  } while (seen.insert(face).second && free_worst_pair(problem, p, face));
  return p;
}

constexpr double kWorstCondition = 1e-13;  // reciprocal
constexpr double kLeastRidge = 1e-10;      // far above the rounding of inner products
constexpr double kMostRidge = 1e-3;        // rounding never needs as much
constexpr double kZero = 1e-11;            // a squared length, relative

// Scaled to a unit diagonal, for the vectors' lengths say nothing about the form.
bool well_posed(const Matrix& h) {
  const VectorXd scale = h.diagonal().cwiseSqrt().cwiseInverse();
  const Cholesky<Matrix> factor(scale.asDiagonal() * h * scale.asDiagonal());
  return factor.exists() && factor.rcond() > kWorstCondition;
}

// The form to minimise, in units of the shortest vector. `+ 1 1^T` adds a constant on the plane
// sum p = 1, and makes the form definite for affinely independent vectors.
Matrix definite_form(const Eigen::Map<const Matrix>& g, double& ridge) {
  Matrix h = (g / g.diagonal().minCoeff()).array() + 1;
  const VectorXd diagonal = h.diagonal();
  for (ridge = 0; ridge <= kMostRidge; ridge = std::max(kLeastRidge, 10 * ridge)) {
    h.diagonal() = diagonal + ridge * (diagonal.array() - 1).matrix();
    if (well_posed(h)) return h;
  }
  throw InvalidArgument("the inner products of the updates are no Gram matrix", "aggregator",
                        "they have a negative eigenvalue");
}

void require_products(const Eigen::Map<const Matrix>& g) {
  if (g.allFinite() && g.diagonal().minCoeff() >= 0) return;
  throw InvalidArgument("the inner products of the updates are no Gram matrix", "aggregator",
                        "they are finite, and squares are not negative");
}

// A point of the box to start at.
std::vector<double> middle(const Box& box, std::size_t k) {
  std::vector<double> start(k, 1 / static_cast<double>(k));
  for (std::size_t i = 0; i < box.lower.size(); ++i) start[i] = (box.lower[i] + box.upper[i]) / 2;
  return start;
}

}  // namespace

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

std::vector<double> minimize_on_simplex(std::span<const double> h, std::span<const double> c,
                                        std::span<const double> start, const Box& box) {
  const Problem problem(h, c, box);
  VectorXd p = Eigen::Map<const VectorXd>(start.data(), problem.size());
  Face face = problem.face_of(p);
  int64_t fewest = problem.size() + 1;  // entries in the wrong place so far
  int patience = 3;                     // exchanges that may fail to lower it
  while (patience > 0 && has_free(face)) {
    const Stationary found = problem.solve_on(face);
    p = found.p;
    const int64_t wrong = exchange_all(problem, found, face);
    if (wrong == 0) return {p.begin(), p.end()};
    patience = wrong < fewest ? 3 : patience - 1;
    fewest = std::min(fewest, wrong);
  }
  p = active_set(problem, feasible_point(problem, p));
  return {p.begin(), p.end()};
}

MinNorm min_norm(std::span<const double> gram, int64_t k, const Box& box) {
  const auto n = static_cast<std::size_t>(k);
  const Eigen::Map<const Matrix> g(gram.data(), k, k);
  require_products(g);
  MinNorm found;
  Eigen::Index least = 0;
  if (box.upper.empty() && g.diagonal().minCoeff(&least) == 0) {
    found.weights.assign(n, 0);
    found.weights[static_cast<std::size_t>(least)] = 1;
    found.stationary = true;
    return found;
  }
  const Matrix h = definite_form(g, found.ridge);
  const std::span<const double> form(h.data(), n * n);
  found.weights = minimize_on_simplex(form, std::vector<double>(n), middle(box, n), box);
  const auto p = Eigen::Map<const VectorXd>(found.weights.data(), k);
  found.squared_norm = std::max(0.0, p.dot(g * p));
  const double length = p.dot(g.diagonal().cwiseSqrt());  // without cancelling
  const bool zero = found.squared_norm <= std::max(kZero, 2 * found.ridge) * length * length;
  found.stationary = zero || (box.upper.empty() && (g * p).minCoeff() <= 0);
  return found;
}

}  // namespace hanse
