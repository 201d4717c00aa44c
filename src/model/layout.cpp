#include "hanse/model/layout.hpp"

#include <utility>

namespace hanse {

std::size_t ParameterLayout::add(const std::string& name, std::vector<int64_t> shape,
                                 int64_t fan_in) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  ParameterSlot slot;
  slot.name = name;
  slot.shape = std::move(shape);
  slot.offset = n_params_;
  slot.size = size;
  slot.fan_in = fan_in;
  slots_.push_back(std::move(slot));
  n_params_ += size;
  return slots_.size() - 1;
}

}  // namespace hanse
