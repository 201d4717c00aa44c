// Integers of a few bytes: the sum's 64-bit values rarely need more than 4 to 6. Lossless. Private
// to comm/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hanse {

// The fewest bytes, 1 to 8, that hold each of the values with its sign.
int64_t packed_width(std::span<const int64_t> values);

// Writes the values in `width` bytes each. REQUIRES: width >= packed_width(values); room for 8
// bytes a value; the room behind the packed values is undefined afterwards.
void pack(std::span<const int64_t> values, int64_t width, std::byte* packed);

// sum[i] += value i. REQUIRES: 8 readable bytes a value, as for pack().
void add_packed(const std::byte* packed, int64_t width, std::span<int64_t> sum);

}  // namespace hanse
