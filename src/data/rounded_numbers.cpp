#include "rounded_numbers.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostKept = 1 << 16;  // different numbers of a column
constexpr std::size_t kMostOfAll = 1 << 20;
constexpr std::size_t kMostNamed = 4;  // columns

}  // namespace

float RoundedNumbers::nearest(double value) const {
  if (bits_ == std::numeric_limits<float>::digits) return static_cast<float>(value);
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(fraction, bits_)), exponent - bits_));
}

void RoundedNumbers::see_large(double value, int64_t column) {
  if (!std::isfinite(value)) return;
  Large& large = large_[column];
  const float rounded = nearest(value);
  if (static_cast<double>(rounded) != value) {
    ++large.rounded;
    large.whole = large.whole || value == std::floor(value);
  }
  if (large.values.size() == kMostKept || kept_ == kMostOfAll) return;
  if (large.values.insert(value).second) ++kept_;
  large.in_format.insert(rounded);
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
    const bool merged = large.in_format.size() < large.values.size();
    if (!large.whole && !merged) continue;
    if (parts.size() == kMostNamed) {
      ++others;
      continue;
    }
    parts.push_back(fmt::format("{}: {} of {} numbers {} not exact in {}", name(column),
                                large.rounded, seen_[to_index(column)],
                                large.rounded == 1 ? "is" : "are", format_));
    if (!merged) continue;
    parts.back() +=
        fmt::format(", {} different ones become {}", large.values.size(), large.in_format.size());
  }
  if (others > 0) parts.push_back(fmt::format("{} other columns alike", others));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace hanse
