#include "hanse/model/layout.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr double kFewBytes = 16e6;

}  // namespace

int64_t size_of(const std::vector<int64_t>& shape) {
  int64_t size = 1;
  for (const int64_t extent : shape) {
    if (!__builtin_mul_overflow(size, extent, &size)) continue;
    throw ModelTooLarge(
        fmt::format("no memory holds a tensor of {} values", fmt::join(shape, " x ")));
  }
  return size;
}

// Looks at the memory whenever the model has grown by half.
void ParameterLayout::require_memory() {
  constexpr double kSlotBytes = 512;  // and what a model keeps beside the values
  const double bytes = sizeof(float) * static_cast<double>(n_params_) +
                       kSlotBytes * static_cast<double>(slots_.size());
  if (bytes < kFewBytes || bytes < 1.5 * tested_bytes_) return;
  tested_bytes_ = bytes;
  const auto available = static_cast<double>(available_memory());
  if (bytes <= available) return;
  throw ModelTooLarge(
      fmt::format("the model's parameters take at least {} of memory, and there are {}",
                  memory_text(bytes), memory_text(available)));
}

int64_t ParameterLayout::append(ParameterSlot slot) {
  slot.offset = n_params_;
  slot.size = size_of(slot.shape);
  if (__builtin_add_overflow(n_params_, slot.size, &n_params_)) {
    throw ModelTooLarge("no memory holds so many parameters");
  }
  if (slot.trainable) n_trainable_ = n_params_;
  if (slot.frozen) n_frozen_ += slot.size;
  slots_.push_back(std::move(slot));
  require_memory();
  return slots_.back().offset;
}

void ParameterLayout::tie(const std::string& name, const std::string& also) {
  std::ranges::find(slots_, name, &ParameterSlot::name)->also.push_back(also);
}

void ParameterLayout::mark(const std::string& called, MatrixUse use) {
  const auto has_it = [&](const ParameterSlot& slot) {
    return slot.name == called || std::ranges::count(slot.also, called) > 0;
  };
  std::ranges::find_if(slots_, has_it)->uses[called] = use;
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

std::vector<ParameterSlot> trainable_slots(const ParameterLayout& layout) {
  std::vector<ParameterSlot> slots;
  std::ranges::copy_if(layout.slots(), std::back_inserter(slots), &ParameterSlot::trainable);
  return slots;
}

bool holds(const std::vector<ParameterSlot>& slots, const ParameterSlot& slot) {
  return std::ranges::count(slots, slot.offset, &ParameterSlot::offset) > 0;
}

std::vector<RowPart> joined_parts(const std::vector<ParameterSlot>& slots) {
  std::vector<RowPart> parts;
  for (const ParameterSlot& slot : slots) {
    if (parts.empty() || parts.back().end != slot.offset) {
      parts.push_back({slot.offset, slot.offset});
    }
    parts.back().end = slot.offset + slot.size;
  }
  return parts;
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
