#include "federated/kept_updates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"
#include "hanse/protocol/engines.hpp"

namespace hanse {

namespace {

constexpr std::size_t kBlock = 4096;  // values that stay in the cache until they are measured
constexpr auto kLength = static_cast<int64_t>(kBlock);

std::vector<StateBlock> blocks_of(const AggregatorNeeds& needs, const ParameterLayout& layout) {
  if (needs.sign_share) return SignMemory(layout, *needs.sign_share).state_blocks();
  if (needs.last_updates) return {{"last_update", layout.n_params()}};
  return {};
}

}  // namespace

int64_t rule_state_width(const AggregatorNeeds& needs, const ParameterLayout& layout) {
  return width_of(blocks_of(needs, layout));
}

KeptUpdates::KeptUpdates(Communicator& comm, const ParameterLayout& layout,
                         const AggregatorNeeds& needs)
    : layers_(row_parts(layout, needs.layers)),
      trained_(to_index(layout.n_trainable())),
      remembers_updates_(needs.last_updates),
      blocks_(blocks_of(needs, layout)),
      exchange_(comm, layers_) {
  if (needs.sign_share) signs_.emplace(layout, *needs.sign_share);
}

FoldResult KeptUpdates::keep(int64_t position, std::span<float> state, AlignedFloats& row,
                             std::span<const float> theta, bool is_update) {
  const std::size_t used = kept_.size();
  if (used == rows_.size()) rows_.emplace_back(row.size());
  AlignedFloats& kept = rows_[used];
  std::swap(row, kept);
  double trained = 0, buffers = 0;
  for (std::size_t begin = 0; begin < kept.size();) {
    const std::size_t end = begin < trained_ ? trained_ : kept.size();
    const std::size_t length = std::min(kBlock, end - begin);
    const auto update = std::span(kept).subspan(begin, length);
    for (std::size_t i = 0; !is_update && i < length; ++i) update[i] -= theta[begin + i];
    (begin < trained_ ? trained : buffers) += inner_product(update, update);
    std::copy_n(&theta[begin], length, &row[begin]);
    begin += length;
  }
  kept_.push_back({position, state});
  return {.squared_norm = trained, .in_range = std::isfinite(trained + buffers)};
}

std::optional<double> KeptUpdates::distance() const {
  if (!signs_) return std::nullopt;
  return signs_->distance(rows_[kept_.size() - 1], kept_.back().state);
}

void KeptUpdates::keep_absent(int64_t position, std::span<const float> state) {
  absent_.push_back({position, state_block(blocks_, state, "last_update")});
}

std::vector<OwnedRow> KeptUpdates::rows_of_round() const {
  std::vector<OwnedRow> rows;
  for (std::size_t i = 0; i < kept_.size(); ++i) rows.push_back({kept_[i].position, rows_[i]});
  rows.insert(rows.end(), absent_.begin(), absent_.end());
  return rows;
}

std::vector<double> KeptUpdates::gram(int64_t k) { return exchange_.gram(rows_of_round(), k); }

int64_t KeptUpdates::fold(std::span<const double> coefficients, int64_t k, UpdateSum& sum) {
  const int64_t broken =
      signs_ ? fold_signed(coefficients, sum) : fold_layers(coefficients, k, sum);
  remember();
  clear();
  return broken;
}

// Block by block of the sum, which is wider than the rows.
int64_t KeptUpdates::fold_layers(std::span<const double> coefficients, int64_t k,
                                 UpdateSum& sum) const {
  const auto rows = rows_of_round();
  int64_t broken = -1;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const auto weights = coefficients.subspan(layer * to_index(k), to_index(k));
    for (int64_t begin = layers_[layer].begin; begin < layers_[layer].end; begin += kLength) {
      const auto length = to_index(std::min(kLength, layers_[layer].end - begin));
      for (const OwnedRow& row : rows) {
        const auto part = row.values.subspan(to_index(begin), length);
        if (!sum.add(part, weights[to_index(row.position)], begin).in_range) broken = row.position;
      }
    }
  }
  return broken;
}

// sum p_i m_i u_i, and behind it sum p_i m_i.
int64_t KeptUpdates::fold_signed(std::span<const double> coefficients, UpdateSum& sum) const {
  std::vector<float> masked(kBlock), mask(kBlock);
  const int64_t width = layers_.back().end;
  int64_t broken = -1;
  for (int64_t begin = 0; begin < width; begin += kLength) {
    const auto length = to_index(std::min(kLength, width - begin));
    const auto entries = std::span(masked).first(length);
    const auto counted = std::span(mask).first(length);
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const auto& [position, state] = kept_[i];
      const double weight = coefficients[to_index(position)];
      signs_->mask(rows_[i], state, begin, entries, counted);
      const bool fits = sum.add(entries, weight, begin).in_range &&
                        sum.add(counted, weight, width + begin).in_range;
      if (!fits) broken = position;
    }
  }
  return broken;
}

void KeptUpdates::remember() {
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const std::span<float> state = kept_[i].state;
    if (signs_) signs_->remember(rows_[i], state);
    if (remembers_updates_) std::copy(rows_[i].begin(), rows_[i].end(), state.begin());
  }
}

void KeptUpdates::clear() {
  kept_.clear();
  absent_.clear();
}

void KeptUpdates::divide(std::span<float> update, std::span<const float> weights) {
  for (std::size_t i = 0; i < update.size(); ++i) {
    update[i] = weights[i] > 0 ? update[i] / weights[i] : 0.0F;
  }
}

}  // namespace hanse
