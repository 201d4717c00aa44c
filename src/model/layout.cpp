#include "hanse/model/layout.hpp"

#include <functional>
#include <numeric>
#include <utility>

namespace hanse {

int64_t size_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t ParameterLayout::append(ParameterSlot slot) {
  slot.offset = n_params_;
  slot.size = size_of(slot.shape);
  n_params_ += slot.size;
  if (slot.trainable) n_trainable_ = n_params_;
  slots_.push_back(std::move(slot));
  return slots_.back().offset;
}

std::vector<RowPart> row_parts(const ParameterLayout& layout, bool layers) {
  if (!layers) return {{0, layout.n_params()}};
  std::vector<RowPart> parts;
  std::string last;
  for (const ParameterSlot& slot : layout.slots()) {
    const std::string layer = slot.name.substr(0, slot.name.rfind('.'));
    if (parts.empty() || layer != last) parts.push_back({slot.offset, slot.offset});
    parts.back().end = slot.offset + slot.size;
    last = layer;
  }
  return parts;
}

}  // namespace hanse
