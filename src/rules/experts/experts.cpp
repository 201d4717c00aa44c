#include "hanse/rules/experts/experts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/products.hpp"

namespace hanse {

namespace {

constexpr int kNewtonSteps = 500;
constexpr int kHalvings = 60;

double objective(std::span<const double> losses, double lambda, std::span<const double> w) {
  double sum = 0;
  for (std::size_t j = 0; j < w.size(); ++j) {
    sum += losses[j] * std::pow(w[j], lambda) - lambda * std::log(w[j]);
  }
  return sum;
}

// The step d within the bounds, of sum 0, that minimises sum g_j d_j + h_j d_j^2 / 2: d_j =
// -(g_j + nu) / h_j, cut at the bounds, nu by bisection.
std::vector<double> newton_step(std::span<const double> g, std::span<const double> h,
                                std::span<const double> w) {
  std::vector<double> d(w.size());
  const auto sum_at = [&](double nu) {
    double sum = 0;
    for (std::size_t j = 0; j < d.size(); ++j) {
      d[j] = std::clamp(-(g[j] + nu) / h[j], kLeastShare - w[j], 1 - w[j]);
      sum += d[j];
    }
    return sum;
  };
  double low = 0, high = 0;  // of nu: all d at their upper, at their lower bounds
  for (std::size_t j = 0; j < d.size(); ++j) {
    low = std::min(low, -g[j] - h[j]);
    high = std::max(high, -g[j] + h[j]);
  }
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (sum_at(middle) > 0 ? low : high) = middle;
  }
  sum_at(high);
  return d;
}

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

ExpertRule::ExpertRule(Exchange exchange, int64_t nodes, double rate)
    : exchange_(exchange), nodes_(to_index(nodes)), rate_(rate) {
  const double share = 1 / static_cast<double>(nodes);
  if (exchange == Exchange::kAll) memory_.resize(nodes_ * nodes_);
  if (exchange != Exchange::kGradients) return;
  if (share < kLeastShare) {
    throw InvalidArgument(
        fmt::format("{} nodes cannot have {} of the weight each", nodes, kLeastShare),
        "online.kind", "omni-fedge is for 10000 nodes at most");
  }
  memory_.assign(nodes_ * nodes_, share);
}

void ExpertRule::weigh(std::span<const int64_t> participants, std::span<double> weights) const {
  if (exchange_ == Exchange::kGradients) {
    std::copy(memory_.begin(), memory_.end(), weights.begin());
    return;
  }
  std::fill(weights.begin(), weights.end(), 0.0);
  const double share = 1 / static_cast<double>(participants.size());
  for (std::size_t i = 0; i < nodes_; ++i) {
    const auto row = weights.subspan(i * nodes_, nodes_);
    if (exchange_ == Exchange::kNone) row[i] = 1;
    if (exchange_ == Exchange::kAll) weigh_by_losses(participants, i * nodes_, row);
    if (exchange_ != Exchange::kMean) continue;
    for (const int64_t j : participants) row[to_index(j)] = share;
  }
}

// p_ij = w_ij / sum over S of w_ij. The largest w_ij of the row, which starts at `first`, counts
// as 1.
void ExpertRule::weigh_by_losses(std::span<const int64_t> participants, std::size_t first,
                                 std::span<double> row) const {
  double largest = -std::numeric_limits<double>::infinity();
  for (const int64_t j : participants) {
    largest = std::max(largest, memory_[first + to_index(j)]);
  }
  double sum = 0;
  for (const int64_t j : participants) {
    sum += row[to_index(j)] = std::exp(memory_[first + to_index(j)] - largest);
  }
  for (const int64_t j : participants) row[to_index(j)] /= sum;
}

void ExpertRule::observe(std::span<const double> losses) {
  if (exchange_ == Exchange::kAll) {
    for (std::size_t k = 0; k < memory_.size(); ++k) memory_[k] -= rate_ * losses[k];
  }
  if (exchange_ != Exchange::kGradients) return;
  for (std::size_t first = 0; first < memory_.size(); first += nodes_) {
    const auto row = memory_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = row + static_cast<std::ptrdiff_t>(nodes_);
    const auto shares = best_shares(losses.subspan(first, nodes_), rate_, {row, end});
    std::copy(shares.begin(), shares.end(), row);
  }
}

double best_eta(int64_t nodes, int64_t horizon) {
  if (nodes == 1) return 1;
  return std::sqrt(8 * std::log(static_cast<double>(nodes)) / static_cast<double>(horizon));
}

std::vector<int64_t> sample_peers(int64_t nodes, int64_t count, RandomStream& stream) {
  std::vector<int64_t> chosen(to_index(nodes));
  std::iota(chosen.begin(), chosen.end(), int64_t{0});
  if (count == nodes) return chosen;
  for (int64_t i = 0; i < count; ++i) {
    std::swap(chosen[to_index(i)], chosen[to_index(i + stream.below(nodes - i))]);
  }
  chosen.resize(to_index(count));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

double unit_loss(double loss, double scale) {
  if (!(loss >= 0) || !std::isfinite(loss)) {
    throw InvalidArgument(fmt::format("a loss of {} cannot be weighed", number_text(loss)), "",
                          "a smaller online.lr may help");
  }
  if (scale > 0) return std::min(loss / scale, 1.0);
  if (loss > 1) {
    throw InvalidArgument(fmt::format("a loss of {} is outside [0, 1]", number_text(loss)), "",
                          "set online.loss-scale: losses are divided by it and clipped at 1");
  }
  return loss;
}

bool may_mix(double gap, double c, int64_t horizon) {
  return c == 0 || std::abs(gap) <= c / std::sqrt(static_cast<double>(horizon));
}

std::vector<double> best_shares(std::span<const double> losses, double lambda,
                                std::vector<double> start) {
  std::vector<double> w = std::move(start);
  std::vector<double> g(w.size()), h(w.size()), next(w.size());
  double value = objective(losses, lambda, w);
  for (int step = 0; step < kNewtonSteps; ++step) {
    for (std::size_t j = 0; j < w.size(); ++j) {
      const double slope = losses[j] * lambda * std::pow(w[j], lambda - 1);
      const double barrier = lambda / (w[j] * w[j]);
      g[j] = slope - lambda / w[j];
      h[j] = std::max(barrier + slope * (lambda - 1) / w[j], 0.1 * barrier);
    }
    const auto d = newton_step(g, h, w);
    const double gain = -inner_product(std::span<const double>(g), d);
    if (!(gain > 1e-15 * (1 + std::abs(value)))) break;
    double share = 1;
    double found = value;
    for (int i = 0; i < kHalvings; ++i, share /= 2) {
      for (std::size_t j = 0; j < w.size(); ++j) {
        next[j] = std::clamp(w[j] + share * d[j], kLeastShare, 1.0);
      }
      found = objective(losses, lambda, next);
      if (found <= value - 1e-4 * share * gain) break;
    }
    if (!(found < value)) break;
    w.swap(next);
    value = found;
  }
  return w;
}

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
