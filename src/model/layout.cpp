#include "hanse/model/layout.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

int64_t size_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t ParameterLayout::append(ParameterSlot slot) {
  slot.offset = n_params_;
  slot.size = size_of(slot.shape);
  n_params_ += slot.size;
  if (slot.trainable) n_trainable_ = n_params_;
  if (slot.frozen) n_frozen_ += slot.size;
  slots_.push_back(std::move(slot));
  return slots_.back().offset;
}

void ParameterLayout::tie(const std::string& name, const std::string& also) {
  std::ranges::find(slots_, name, &ParameterSlot::name)->also.push_back(also);
}

std::vector<ParameterSlot> matching(const std::vector<ParameterSlot>& slots,
                                    const std::vector<std::string>& patterns,
                                    const std::string& key) {
  std::vector<char> found(slots.size(), 0);
  for (const std::string& pattern : patterns) {
    bool any = false;
    const auto fits = [&](const std::string& name) {
      return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    };
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!fits(slots[i].name) && std::ranges::none_of(slots[i].also, fits)) continue;
      found[i] = 1;
      any = true;
    }
    if (any) continue;
    std::vector<std::string> names;
    for (const ParameterSlot& slot : slots) names.push_back(slot.name);
    throw InvalidArgument(fmt::format("no tensor's name matches '{}'", pattern), key,
                          "the names: " + join(names, ", "));
  }
  std::vector<ParameterSlot> chosen;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (found[i] != 0) chosen.push_back(slots[i]);
  }
  return chosen;
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
