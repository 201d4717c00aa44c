#include <bit>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include "hanse/base/subnormals.hpp"

namespace hanse {
namespace {

volatile float small_float = 1e-30F, tiny_float = 1e-40F;
volatile double small_double = 1e-300;

// Looks at results by their bits, since a comparison may take them for 0, and at operands.
bool keeps_subnormals() {
  const bool floats = std::bit_cast<uint32_t>(small_float * 1e-10F) != 0;
  EXPECT_EQ(floats, std::bit_cast<uint64_t>(small_double * 1e-20) != 0);
  EXPECT_EQ(floats, tiny_float * 1e10F > 0);
  return floats;
}

#if defined(__x86_64__)

TEST(Subnormals, AreZeroAsLongAsItLives) {
  EXPECT_TRUE(keeps_subnormals());
  {
    const FlushSubnormals outer;
    EXPECT_FALSE(keeps_subnormals());
    { const FlushSubnormals inner; }
    EXPECT_FALSE(keeps_subnormals());
    std::thread([] { EXPECT_FALSE(keeps_subnormals()); }).join();
  }
  EXPECT_TRUE(keeps_subnormals());
  std::thread([] { EXPECT_TRUE(keeps_subnormals()); }).join();
  EXPECT_GT(small_float * 1e-7F, 0);  // normal numbers stay
}

#endif

}  // namespace
}  // namespace hanse
