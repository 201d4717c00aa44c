// Values that are stored as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hanse {

// out[i] <- scale in[i] of `count` bytes.
using ByteConversion = void (*)(const std::byte* in, float* out, int64_t count, float scale);

// This processor's, the fastest first, plain loops last. One multiplication a value has the same
// bits in all of them. Cost: the stores, 16 values a cycle with AVX-512 and 8 with AVX2.
std::vector<ByteConversion> byte_conversions();

void bytes_to_floats(const std::byte* in, float* out, int64_t count, float scale);

}  // namespace hanse
