#include "hanse/rules/experts/experts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

ExpertRule::ExpertRule(Exchange exchange, int64_t nodes, double eta)
    : exchange_(exchange), nodes_(to_index(nodes)), eta_(eta) {
  if (exchange == Exchange::kAll) log_weights_.resize(nodes_ * nodes_);
}

void ExpertRule::weigh(std::span<const int64_t> participants, std::span<double> weights) const {
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

// p_ij = w_ij / sum over S of w_ij, the largest w_ij of the row, which starts at `first`, taken as
// 1
void ExpertRule::weigh_by_losses(std::span<const int64_t> participants, std::size_t first,
                                 std::span<double> row) const {
  double largest = -std::numeric_limits<double>::infinity();
  for (const int64_t j : participants) {
    largest = std::max(largest, log_weights_[first + to_index(j)]);
  }
  double sum = 0;
  for (const int64_t j : participants) {
    sum += row[to_index(j)] = std::exp(log_weights_[first + to_index(j)] - largest);
  }
  for (const int64_t j : participants) row[to_index(j)] /= sum;
}

void ExpertRule::observe(std::span<const double> losses) {
  for (std::size_t k = 0; k < log_weights_.size(); ++k) log_weights_[k] -= eta_ * losses[k];
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
    throw InvalidArgument(fmt::format("a loss of {} cannot be weighed", loss), "",
                          "a smaller online.lr may help");
  }
  if (scale > 0) return std::min(loss / scale, 1.0);
  if (loss > 1) {
    throw InvalidArgument(fmt::format("a loss of {:.6g} is outside [0, 1]", loss), "",
                          "set online.loss-scale: losses are divided by it and clipped at 1");
  }
  return loss;
}

bool may_mix(double gap, double c, int64_t horizon) {
  return c == 0 || std::abs(gap) <= c / std::sqrt(static_cast<double>(horizon));
}

}  // namespace hanse
