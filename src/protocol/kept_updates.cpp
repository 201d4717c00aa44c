#include "kept_updates.hpp"

#include <algorithm>
#include <utility>

#include "hanse/base/products.hpp"

namespace hanse {

namespace {

constexpr std::size_t kBlock = 4096;  // values that stay in the cache until they are measured

}  // namespace

KeptUpdates::KeptUpdates(Communicator& comm, std::vector<RowPart> layers)
    : layers_(std::move(layers)), exchange_(comm, layers_) {}

double KeptUpdates::keep(int64_t position, std::span<float> row, std::span<const float> theta,
                         bool is_update) {
  const std::size_t used = positions_.size();
  if (used == rows_.size()) rows_.emplace_back(row.size());
  std::vector<float>& kept = rows_[used];
  double squared_norm = 0;
  for (std::size_t begin = 0; begin < row.size(); begin += kBlock) {
    const std::size_t length = std::min(kBlock, row.size() - begin);
    const auto update = std::span(kept).subspan(begin, length);
    for (std::size_t i = 0; i < length; ++i) {
      update[i] = is_update ? row[begin + i] : row[begin + i] - theta[begin + i];
      row[begin + i] = theta[begin + i];
    }
    squared_norm += inner_product(update, update);
  }
  positions_.push_back(position);
  return squared_norm;
}

std::vector<double> KeptUpdates::gram(int64_t k) {
  std::vector<OwnedRow> mine;
  for (std::size_t i = 0; i < positions_.size(); ++i) mine.push_back({positions_[i], rows_[i]});
  return exchange_.gram(mine, k);
}

int64_t KeptUpdates::fold(std::span<const double> coefficients, int64_t k, UpdateSum& sum) {
  int64_t broken = -1;
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const auto [begin, end] = layers_[layer];
      const auto from = static_cast<std::size_t>(begin);
      const auto size = static_cast<std::size_t>(end - begin);
      const auto entry =
          layer * static_cast<std::size_t>(k) + static_cast<std::size_t>(positions_[i]);
      const FoldResult folded =
          sum.fold(std::span(rows_[i]).subspan(from, size), {}, coefficients[entry], begin);
      if (!folded.in_range) broken = positions_[i];
    }
  }
  clear();
  return broken;
}

}  // namespace hanse
