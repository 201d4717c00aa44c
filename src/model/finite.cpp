#include "hanse/model/finite.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

std::string not_finite(const std::string& name, std::span<const float> values) {
  const auto is_wrong = [](float value) { return !std::isfinite(value); };
  const auto first = std::ranges::find_if(values, is_wrong);
  if (first == values.end()) return "";
  const auto count = std::count_if(first, values.end(), is_wrong);
  return fmt::format("{} has {} value{} of {} that {} not finite, the first {}", name, count,
                     count == 1 ? "" : "s", values.size(), count == 1 ? "is" : "are",
                     number_text(static_cast<double>(*first)));
}

std::string not_finite(const ParameterLayout& layout, std::span<const float> row) {
  for (const ParameterSlot& slot : layout.slots()) {
    if (slot.offset + slot.size > std::ssize(row)) break;
    const auto values = row.subspan(to_index(slot.offset), to_index(slot.size));
    const std::string found = not_finite(slot.name, values);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace hanse
