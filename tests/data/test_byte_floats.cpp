// Bytes as floats: all kernels against plain arithmetic, of every count around their vectors.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "data/byte_floats.hpp"

namespace hanse {
namespace {

TEST(ByteFloats, AreTheSameByAllKernels) {
  std::vector<std::byte> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 % 256);
  for (const float scale : {1.0F / 255.0F, 1.0F}) {
    for (int64_t count = 0; count < 260; ++count) {
      const auto first = static_cast<std::size_t>(count % 5);
      std::vector<float> expected(static_cast<std::size_t>(count) + 1, -1);  // none behind the last
      for (std::size_t i = 0; i + 1 < expected.size(); ++i) {
        expected[i] = static_cast<float>((i + first) * 7 % 256) * scale;
      }
      for (const ByteConversion convert : byte_conversions()) {
        std::vector<float> found(expected.size(), -1);
        convert(bytes.data() + first, found.data(), count, scale);
        EXPECT_EQ(found, expected) << count;
      }
    }
  }
}

}  // namespace
}  // namespace hanse
