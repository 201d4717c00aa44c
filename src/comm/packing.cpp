#include "packing.hpp"

#include <bit>
#include <cstring>
#include <utility>

#include "hanse/base/wrapping.hpp"

namespace hanse {

namespace {

constexpr std::size_t kWidest = sizeof(int64_t);

// The lowest bytes of a value come first: a value is written whole, and the next one over the bytes
// that it does not need.
static_assert(std::endian::native == std::endian::little);

// A width known at compile time.
template <std::size_t kWidth>
void pack_all(std::span<const int64_t> values, std::byte* packed) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(packed + i * kWidth, &values[i], kWidest);
  }
}

template <std::size_t kWidth>
void add_all(const std::byte* packed, std::span<int64_t> sum) {
  constexpr std::size_t kFreeBits = 8 * (kWidest - kWidth);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    uint64_t value;
    std::memcpy(&value, packed + i * kWidth, kWidest);
    sum[i] = wrapping_sum(sum[i], static_cast<int64_t>(value << kFreeBits) >> kFreeBits);
  }
}

template <std::size_t... kWidths>
void pack_by_width(std::index_sequence<kWidths...>, std::size_t width,
                   std::span<const int64_t> values, std::byte* packed) {
  ((width == kWidths + 1 ? pack_all<kWidths + 1>(values, packed) : void()), ...);
}

template <std::size_t... kWidths>
void add_by_width(std::index_sequence<kWidths...>, std::size_t width, const std::byte* packed,
                  std::span<int64_t> sum) {
  ((width == kWidths + 1 ? add_all<kWidths + 1>(packed, sum) : void()), ...);
}

constexpr std::make_index_sequence<kWidest> kAllWidths{};

}  // namespace

int64_t packed_width(std::span<const int64_t> values) {
  uint64_t used = 0;
  for (const int64_t value : values) used |= static_cast<uint64_t>(value ^ (value >> 63));
  return std::bit_width(used) / 8 + 1;  // a bit more, for the sign
}

void pack(std::span<const int64_t> values, int64_t width, std::byte* packed) {
  pack_by_width(kAllWidths, static_cast<std::size_t>(width), values, packed);
}

void add_packed(const std::byte* packed, int64_t width, std::span<int64_t> sum) {
  add_by_width(kAllWidths, static_cast<std::size_t>(width), packed, sum);
}

}  // namespace hanse
