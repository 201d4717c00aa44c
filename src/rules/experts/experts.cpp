#include "hanse/rules/experts/experts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/rules/experts/omni_fedge.hpp"

namespace hanse {

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

}  // namespace hanse
