#include "rounded_numbers.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostKept = 1 << 16;  // different numbers of a column
constexpr std::size_t kMostNamed = 4;       // columns

}  // namespace

void RoundedNumbers::see_large(double value, int64_t column) {
  if (!std::isfinite(value)) return;
  Large& large = large_[column];
  const auto rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) != value) {
    ++large.rounded;
    large.whole = large.whole || value == std::floor(value);
  }
  if (large.values.size() == kMostKept) return;
  large.values.insert(value);
  large.in_float32.insert(rounded);
}

std::vector<int64_t> RoundedNumbers::columns() const {
  std::vector<int64_t> columns;
  for (const auto& [column, large] : large_) {
    if (large.rounded > 0) columns.push_back(column);
  }
  return columns;
}

std::string RoundedNumbers::text(const std::function<std::string(int64_t)>& name) const {
  std::vector<std::string> parts;
  std::size_t others = 0;
  for (const int64_t column : columns()) {
    const Large& large = large_.at(column);
    const bool merged = large.in_float32.size() < large.values.size();
    if (!large.whole && !merged) continue;
    if (parts.size() == kMostNamed) {
      ++others;
      continue;
    }
    parts.push_back(fmt::format("{}: {} of {} numbers {} not exact in float32", name(column),
                                large.rounded, seen_[to_index(column)],
                                large.rounded == 1 ? "is" : "are"));
    if (!merged) continue;
    parts.back() +=
        fmt::format(", {} different ones become {}", large.values.size(), large.in_float32.size());
  }
  if (others > 0) parts.push_back(fmt::format("{} other columns alike", others));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace hanse
