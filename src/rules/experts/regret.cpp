#include "hanse/rules/experts/regret.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"

namespace hanse {

namespace {

constexpr int kMostSteps = 1000;
constexpr double kGap = 1e-4;  // of the loss a round

// One step of EM from q, whose gain_j = mean_t p_tj / sum_k q_k p_tk. Returns the largest gain: its
// logarithm bounds what is left to win a round (the sum is concave in q).
double em_step(std::span<const double> p, std::span<double> q, std::span<double> gain) {
  const std::size_t n = q.size();
  std::fill(gain.begin(), gain.end(), 0.0);
  for (std::size_t t = 0; t < p.size(); t += n) {
    const double mixed = inner_product(q, p.subspan(t, n));
    for (std::size_t j = 0; j < n; ++j) gain[j] += p[t + j] / mixed;
  }
  double largest = 0;
  for (std::size_t j = 0; j < n; ++j) {
    gain[j] *= static_cast<double>(n) / static_cast<double>(p.size());
    largest = std::max(largest, gain[j]);
    q[j] *= gain[j];
  }
  return largest;
}

}  // namespace

FixedMixture best_fixed_mixture(std::span<const double> losses, std::size_t n) {
  // p_tj = exp(l_t - l_tj) with l_t the round's least loss, so that no round underflows.
  std::vector<double> p(losses.size());
  double shift = 0;
  for (std::size_t t = 0; t < losses.size(); t += n) {
    const double least = *std::min_element(losses.begin() + static_cast<std::ptrdiff_t>(t),
                                           losses.begin() + static_cast<std::ptrdiff_t>(t + n));
    shift += least;
    for (std::size_t j = 0; j < n; ++j) p[t + j] = std::exp(least - losses[t + j]);
  }
  FixedMixture best;
  best.weights.assign(n, 1 / static_cast<double>(n));
  std::vector<double> gain(n);
  for (int step = 0; step < kMostSteps; ++step) {
    if (std::log(em_step(p, best.weights, gain)) <= kGap) break;
  }
  best.loss = shift;
  for (std::size_t t = 0; t < p.size(); t += n) {
    best.loss -= std::log(inner_product(best.weights, std::span(p).subspan(t, n)));
  }
  return best;
}

RegretBook::RegretBook(int64_t nodes, double scale)
    : nodes_(to_index(nodes)),
      scale_(scale),
      sums_(nodes_ * nodes_),
      weighted_(nodes_),
      own_(nodes_) {}

void RegretBook::add(std::span<const double> weights, std::span<const double> losses,
                     std::span<const double> own) {
  ++rounds_;
  for (std::size_t i = 0; i < nodes_; ++i) {
    own_[i] += own[i];
    for (std::size_t j = 0; j < nodes_; ++j) {
      const std::size_t k = i * nodes_ + j;
      sums_[k] += losses[k];
      weighted_[i] += weights[k] * losses[k];
    }
  }
  if (static_cast<int64_t>(nodes_) <= kMostNodes) {
    history_.insert(history_.end(), losses.begin(), losses.end());
  }
}

double RegretBook::best_peer(int64_t node) const {
  const auto row = sums_.begin() + node * static_cast<int64_t>(nodes_);
  return *std::min_element(row, row + static_cast<std::ptrdiff_t>(nodes_));
}

double RegretBook::best_mixture(int64_t node) const {
  if (history_.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> losses;
  const std::size_t first = to_index(node) * nodes_;
  for (std::size_t t = 0; t < history_.size(); t += nodes_ * nodes_) {
    for (std::size_t j = 0; j < nodes_; ++j) losses.push_back(scale_ * history_[t + first + j]);
  }
  return std::min(best_fixed_mixture(losses, nodes_).loss / scale_, best_peer(node));
}

void RegretBook::visit(StateFields& fields) {
  fields.one("rounds", rounds_);
  fields.fixed("sums", sums_);
  fields.fixed("weighted", weighted_);
  fields.fixed("own", own_);
  fields.all("history", history_);
}

}  // namespace hanse
