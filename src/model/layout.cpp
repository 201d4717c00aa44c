#include "hanse/model/layout.hpp"

#include <functional>
#include <numeric>
#include <utility>

namespace hanse {

int64_t size_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

ParameterSlot& ParameterLayout::append(const std::string& name, std::vector<int64_t> shape) {
  ParameterSlot& slot = slots_.emplace_back();
  slot.name = name;
  slot.size = size_of(shape);
  slot.shape = std::move(shape);
  slot.offset = n_params_;
  n_params_ += slot.size;
  return slot;
}

int64_t ParameterLayout::add(const std::string& name, std::vector<int64_t> shape, int64_t fan_in) {
  ParameterSlot& slot = append(name, std::move(shape));
  slot.fan_in = fan_in;
  n_trainable_ = n_params_;
  return slot.offset;
}

void ParameterLayout::add_constant(const std::string& name, std::vector<int64_t> shape,
                                   float start) {
  append(name, std::move(shape)).start = start;
  n_trainable_ = n_params_;
}

void ParameterLayout::add_buffer(const std::string& name, std::vector<int64_t> shape) {
  append(name, std::move(shape)).trainable = false;
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
