#include "hanse/rules/aggregation/multi_objective.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "decompositions.hpp"
#include "simplex.hpp"

namespace hanse {

namespace {

using Matrix = ByRows;
using Eigen::Index;
using Eigen::VectorXd;

constexpr double kRounding = 1e-13;  // of a squared length whose terms cancel, or of a loss

// h of eq. (5), sum_j F_j (F_i - F_j) / (sqrt(m) |F|^3): zero when all losses are equal.
VectorXd fairness_row(std::span<const double> losses) {
  const auto m = static_cast<Index>(losses.size());
  const auto f = Eigen::Map<const VectorXd>(losses.data(), m);
  const double norm = f.norm();
  VectorXd h = VectorXd::Zero(m);
  for (Index i = 0; norm > 0 && i < m; ++i) {
    h[i] = (f.array() / norm * (f[i] - f.array()) / norm).sum() / norm;
  }
  return h / std::sqrt(static_cast<double>(m));
}

// |sum a_i u_i|^2; 0 when it is nothing but rounding.
double squared_length(const Matrix& gram, const VectorXd& a) {
  const double square = a.dot(gram * a);
  const double terms = a.cwiseAbs().dot(gram.diagonal().cwiseSqrt());
  return square > kRounding * terms * terms ? square : 0;
}

// Layers that move together.
struct Group {
  Index begin = 0;
  Index end = 0;
  Matrix gram;  // [n, n] of the updates' parts in these layers, first those of participants
  VectorXd c;   // [n] the direction is sum c_i u_i; zero when the hull holds 0
  bool stationary = false;
  double ridge = 0;
};

// The shortest vector in the hull of the rows of `hull`, combinations of the updates.
void point_to(Group& group, const Matrix& hull) {
  Matrix products = hull * group.gram * hull.transpose();
  for (Index i = 0; i < hull.rows(); ++i) {
    if (squared_length(group.gram, hull.row(i).transpose()) > 0) continue;
    products.row(i).setZero();
    products.col(i).setZero();
  }
  const std::span<const double> entries(products.data(), static_cast<std::size_t>(products.size()));
  const MinNorm found = min_norm(entries, hull.rows());
  group.stationary = found.stationary;
  group.ridge = found.ridge;
  group.c = VectorXd::Zero(group.gram.rows());
  if (found.stationary) return;
  group.c = hull.transpose() * Eigen::Map<const VectorXd>(found.weights.data(), hull.rows());
}

// The hull of the participants' updates, and sum h_i u_i unless h is zero.
Matrix paper_hull(const std::vector<Index>& used, const VectorXd& h) {
  const auto n = static_cast<Index>(used.size());
  Matrix hull = Matrix::Zero(n + !h.isZero(0), h.size());
  for (Index row = 0; row < n; ++row) hull(row, used[static_cast<std::size_t>(row)]) = 1;
  if (!h.isZero(0)) hull.row(n) = h.transpose();
  return hull;
}

// The hull of the participants' updates, scaled to their mean length, without those of no length;
// then the absent clients' last updates, scaled alike. P's gradient is summed from the scaled
// updates where the form is the authors'.
Matrix scaled_hull(const Matrix& gram, const VectorXd& h, bool reference) {
  const Index m = h.size();
  const VectorXd lengths = gram.diagonal().cwiseSqrt();
  const double mean = lengths.head(m).mean();
  std::vector<Index> used;
  VectorXd scale = VectorXd::Zero(lengths.size());
  for (Index i = 0; i < lengths.size(); ++i) {
    if (!(lengths[i] > 0)) continue;
    used.push_back(i);
    scale[i] = mean / lengths[i];
  }
  VectorXd p = VectorXd::Zero(lengths.size());
  p.head(m) = reference ? h.cwiseProduct(scale.head(m)).eval() : h;
  const double square = squared_length(gram, p);
  if (square > 0) p *= mean / std::sqrt(square);
  if (square == 0) p.setZero();
  Matrix hull = paper_hull(used, p);
  for (Index row = 0; row < static_cast<Index>(used.size()); ++row) {
    hull.row(row) *= scale[used[static_cast<std::size_t>(row)]];
  }
  return hull;
}

// Joins group `at` with the next one, the last with the one before; returns where it is now.
std::size_t join_groups(std::vector<Group>& groups, std::size_t at) {
  const std::size_t first = at + 1 < groups.size() ? at : at - 1;
  groups[first].gram += groups[first + 1].gram;
  groups[first].end = groups[first + 1].end;
  groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(first) + 1);
  return first;
}

void point_each(std::vector<Group>& groups, const VectorXd& h) {
  for (Group& group : groups) {
    const Matrix hull = scaled_hull(group.gram, h, true);
    if (hull.rows() > 0) point_to(group, hull);
  }
}

// Lines 6-12 of algorithm 1. `hull_of`: the rows for a group.
template <class HullOf>
void point_joined(std::vector<Group>& groups, HullOf hull_of) {
  for (std::size_t at = 0; at < groups.size();) {
    const Matrix hull = hull_of(groups[at]);
    groups[at].stationary = true;
    if (hull.rows() > 0) point_to(groups[at], hull);
    const bool join = groups[at].stationary && groups.size() > 1;
    at = join ? join_groups(groups, at) : at + 1;
  }
}

// Line 15: a step as long as the mean update of the m participants, for which `all` stands.
Mix scaled(const std::vector<Group>& groups, const Matrix& all, Index layers, Index dropped) {
  const auto m = static_cast<double>(all.rows());
  const Index vectors = groups.front().c.size();
  Mix mix{.coefficients = std::vector<double>(static_cast<std::size_t>(layers * vectors))};
  mix.direction.dropped = dropped;
  double square = 0;
  for (const Group& group : groups) {
    square += std::max(0.0, group.c.dot(group.gram * group.c));
    mix.direction.ridge = std::max(mix.direction.ridge, group.ridge);
  }
  if (square == 0) return mix;
  mix.direction.squared_norm = std::max(0.0, all.sum()) / (m * m);
  const double scale = std::sqrt(mix.direction.squared_norm / square);
  Eigen::Map<Matrix> coefficients(mix.coefficients.data(), layers, vectors);
  for (const Group& group : groups) {
    coefficients.middleRows(group.begin, group.end - group.begin).rowwise() =
        scale * group.c.transpose();
  }
  return mix;
}

Mix mix_layers(const RoundReport& report, Index absent, const FedLfForm& form) {
  require_losses(report.losses, -INFINITY);
  const auto m = static_cast<Index>(report.losses.size());
  const Index n = m + absent;
  std::vector<Group> groups;
  Matrix all = Matrix::Zero(m, m);  // of the participants' whole updates
  for (Index layer = 0; layer * n * n < static_cast<Index>(report.gram.size()); ++layer) {
    const Eigen::Map<const Matrix> gram(report.gram.data() + layer * n * n, n, n);
    groups.push_back({.begin = layer, .end = layer + 1, .gram = gram, .c = VectorXd::Zero(n)});
    all += gram.topLeftCorner(m, m);
  }
  const auto layers = static_cast<Index>(groups.size());
  std::vector<Index> used;
  for (Index i = 0; i < m; ++i) {
    if (all(i, i) > 0) used.push_back(i);
  }
  VectorXd h = fairness_row(report.losses);
  // Scaled, the gradient of losses that differ by rounding alone would point anywhere.
  const auto [least, most] = std::ranges::minmax(report.losses);
  const bool equal = form.window && most - least <= kRounding * std::abs(most);
  if (equal || squared_length(all, h) == 0) h.setZero();
  if (used.empty()) return scaled(groups, all, layers, m);
  if (form.reference) {
    point_each(groups, h);
  } else if (form.window) {
    point_joined(groups, [&](const Group& group) { return scaled_hull(group.gram, h, false); });
  } else {
    point_joined(groups, [hull = paper_hull(used, h)](const Group&) { return hull; });
  }
  return scaled(groups, all, layers, m - static_cast<Index>(used.size()));
}

class FedLf final : public Aggregator {
 public:
  explicit FedLf(const FedLfForm& form) : form_(form) {}

  AggregatorNeeds needs() const override {
    return {.losses = true,
            .gram = true,
            .layers = true,
            .last_updates = form_.window,
            .directions = true,
            .matrices = 6,
            .cubes = 4};
  }

  std::vector<int64_t> absent(int64_t round, std::span<const int64_t> participants) const override {
    std::vector<int64_t> found;
    const auto window = std::ssize(last_rounds_) / std::max<int64_t>(1, std::ssize(participants));
    for (const auto& [client, last] : last_rounds_) {
      if (last >= round - window && !std::ranges::count(participants, client)) {
        found.push_back(client);
      }
    }
    return found;
  }

  Mix mix(const RoundReport& report) override {
    const auto absent = static_cast<Index>(this->absent(report.round, report.clients).size());
    if (form_.window) {
      for (const int64_t client : report.clients) last_rounds_[client] = report.round;
    }
    return mix_layers(report, absent, form_);
  }

 protected:
  void visit(StateFields& fields) override {
    if (!form_.window) return;
    std::vector<int64_t> clients, rounds;
    for (const auto& [client, last] : last_rounds_) {
      clients.push_back(client);
      rounds.push_back(last);
    }
    fields.all("clients", clients);
    fields.all("last_rounds", rounds);
    if (!fields.loads()) return;
    last_rounds_.clear();
    for (std::size_t i = 0; i < clients.size(); ++i) last_rounds_[clients[i]] = rounds.at(i);
  }

 private:
  FedLfForm form_;
  std::map<int64_t, int64_t> last_rounds_;  // by client that ever took part; empty: no window
};

}  // namespace

std::unique_ptr<Aggregator> make_fedlf(const FedLfForm& form) {
  return std::make_unique<FedLf>(form);
}

std::unique_ptr<Aggregator> make_fedmgda(double epsilon, ClientWeights weights) {
  const bool sizes = weights == ClientWeights::kSamples;
  return make_rule(
      {.sizes = sizes, .gram = true, .directions = true, .matrices = 3, .cubes = 1},
      [=](const RoundReport& report) {
        const std::size_t k = report.clients.size();
        std::vector<double> lengths(k);  // |u_i|
        std::vector<std::size_t> used;
        for (std::size_t i = 0; i < k; ++i) {
          lengths[i] = std::sqrt(report.gram[i * k + i]);
          if (lengths[i] > 0) used.push_back(i);
        }
        Mix mix{.coefficients = std::vector<double>(k), .response = std::vector<double>(k)};
        mix.direction.dropped = static_cast<int64_t>(k - used.size());
        if (used.empty()) return mix;
        const std::vector<double> all_shares = shares_of(report, weights);
        std::vector<double> cosines, shares, draw_weights;
        cosines.reserve(used.size() * used.size());
        for (const std::size_t i : used) {
          shares.push_back(all_shares[i]);
          draw_weights.push_back(report.draw_weights[i]);
          for (const std::size_t j : used) {
            cosines.push_back(i == j ? 1 : report.gram[i * k + j] / lengths[i] / lengths[j]);
          }
        }
        std::vector<double> lower, upper;
        for (const double centre : estimate(shares, draw_weights, Estimator::kNormalized)) {
          lower.push_back(std::max(0.0, centre - epsilon));
          upper.push_back(std::min(1.0, centre + epsilon));
        }
        const MinNorm found = min_norm(cosines, std::ssize(used), {lower, upper});
        for (std::size_t a = 0; a < used.size(); ++a) {
          mix.response[used[a]] = found.weights[a];
          mix.coefficients[used[a]] = found.weights[a] / lengths[used[a]];
        }
        mix.direction.squared_norm = found.squared_norm;
        mix.direction.ridge = found.ridge;  // of a diagonal of ones
        return mix;
      });
}

}  // namespace hanse
