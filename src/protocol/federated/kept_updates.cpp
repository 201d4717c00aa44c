#include "federated/kept_updates.hpp"

#include <algorithm>
#include <utility>

#include "hanse/base/products.hpp"

namespace hanse {

namespace {

constexpr std::size_t kBlock = 4096;  // values that stay in the cache until they are measured

}  // namespace

KeptUpdates::KeptUpdates(Communicator& comm, std::vector<RowPart> layers)
    : layers_(std::move(layers)), exchange_(comm, layers_) {}

double KeptUpdates::keep(int64_t position, AlignedFloats& row, std::span<const float> theta,
                         bool is_update) {
  const std::size_t used = positions_.size();
  if (used == rows_.size()) rows_.emplace_back(row.size());
  AlignedFloats& kept = rows_[used];
  std::swap(row, kept);
  double squared_norm = 0;
  for (std::size_t begin = 0; begin < kept.size(); begin += kBlock) {
    const std::size_t length = std::min(kBlock, kept.size() - begin);
    const auto update = std::span(kept).subspan(begin, length);
    for (std::size_t i = 0; !is_update && i < length; ++i) update[i] -= theta[begin + i];
    squared_norm += inner_product(update, update);
    std::copy_n(&theta[begin], length, &row[begin]);
  }
  positions_.push_back(position);
  return squared_norm;
}

std::vector<double> KeptUpdates::gram(int64_t k) {
  std::vector<OwnedRow> mine;
  for (std::size_t i = 0; i < positions_.size(); ++i) mine.push_back({positions_[i], rows_[i]});
  return exchange_.gram(mine, k);
}

// Block by block of the sum, which is wider than the rows.
int64_t KeptUpdates::fold(std::span<const double> coefficients, int64_t k, UpdateSum& sum) {
  int64_t broken = -1;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const std::span<const double> weights =
        coefficients.subspan(layer * static_cast<std::size_t>(k), static_cast<std::size_t>(k));
    constexpr auto kLength = static_cast<int64_t>(kBlock);
    for (int64_t begin = layers_[layer].begin; begin < layers_[layer].end; begin += kLength) {
      const int64_t length = std::min(kLength, layers_[layer].end - begin);
      for (std::size_t i = 0; i < positions_.size(); ++i) {
        const auto part = std::span(rows_[i]).subspan(static_cast<std::size_t>(begin),
                                                      static_cast<std::size_t>(length));
        const double weight = weights[static_cast<std::size_t>(positions_[i])];
        if (!sum.fold(part, {}, weight, begin).in_range) broken = positions_[i];
      }
    }
  }
  clear();
  return broken;
}

}  // namespace hanse
