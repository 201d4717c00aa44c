#include "pooled_values.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace hanse {

// The two lists of a pooled row of a channel: the upper row of y and the lower one. Without a
// branch, which a processor could not foretell: a value that does not count is written over.
static __attribute__((noinline)) void list_row(const PooledList& of, const float* delta,
                                               const int32_t* which, int32_t at,
                                               PooledWork::Value*& upper,
                                               PooledWork::Value*& lower) {
  // By the place of a value; zeros have 4 more.
  static constexpr std::array<int64_t, 8> kUpper{1, 1}, kLower{0, 0, 1, 1};
  PooledWork::Value *up = upper, *low = lower;
  const int32_t pixel = of.pixel, row = of.row;
  const int64_t channels = of.channels;
  for (const int32_t* const end = which + of.d.width * channels; which < end;) {
    const auto bits = std::bit_cast<uint32_t>(*delta);
    const std::size_t step = static_cast<uint32_t>(*which) | (bits << 1 == 0 ? 4U : 0U);
    const int32_t here = at + (-(*which & 1) & pixel);
    *up = {here, bits};
    *low = {here + row, bits};
    up += kUpper[step];
    low += kLower[step];
    at += 2 * pixel;
    delta += channels;
    which += channels;
  }
  upper = up;
  lower = low;
}

PooledWork::Value* list_values(const PooledList& of, int64_t channel, int64_t first, int64_t end,
                               PooledWork::Value* to, PooledWork::Value* below) {
  const PooledGradient& d = of.d;
  for (int64_t pooled = first / 2; pooled < std::min((end + 1) / 2, d.height); ++pooled) {
    const int64_t from = pooled * d.width * of.channels + channel;
    PooledWork::Value *upper = to, *lower = below;
    list_row(of, d.d + from, d.which + from, static_cast<int32_t>(2 * pooled) * of.row, upper,
             lower);
    if (2 * pooled >= first) to = upper;
    if (2 * pooled + 1 < end) to = std::copy(below, lower, to);
  }
  return to;
}

}  // namespace hanse
