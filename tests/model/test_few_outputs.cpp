// Convolutions with few outputs, whose vectors may be of pixels: every family's bits are those of
// the plain one, on every rest of a vector of pixels.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "model/kernels/convolution_kernels.hpp"

namespace hanse {
namespace {

AlignedFloats normal_floats(int64_t n, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  AlignedFloats values(static_cast<std::size_t>(n + kReadAhead));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

// y in a border of one pixel, which nobody may write to.
AlignedFloats convolved(const Convolution& c, VectorFamily family, const Finish& finish) {
  const int64_t x_row = (c.width + c.kernel - 1) * c.inputs, x_height = c.height + c.kernel - 1;
  AlignedFloats x = normal_floats(x_height * x_row, 1), w = normal_floats(c.weights(), 2);
  std::fill_n(x.begin(), c.margin * x_row, 0.0F);
  std::fill_n(x.begin() + (x_height - c.margin) * x_row, c.margin * x_row, 0.0F);
  const int64_t row = (c.width + 2) * c.outputs;
  AlignedFloats y(static_cast<std::size_t>((c.height + 2) * row + kReadAhead), 7.0F);
  convolution_kernels(family).convolve(c, {x.data(), c.inputs, x_row}, w.data(),
                                       {y.data() + row + c.outputs, c.outputs, row}, finish);
  return y;
}

void expect_same_bits(const Convolution& c) {
  const AlignedFloats bias = normal_floats(c.line(), 3),
                      gate = normal_floats(c.height * c.width * c.outputs, 4);
  const ConstImage gates{gate.data(), c.outputs, c.width * c.outputs};
  for (const Finish& finish :
       {Finish{}, Finish{.bias = bias.data()}, Finish{.bias = bias.data(), .rectify = true},
        Finish{.bias = bias.data(), .gate = gates}, Finish{.add = true}}) {
    const AlignedFloats expected = convolved(c, VectorFamily::kPlain, finish);
    for (const VectorFamily family : families()) {
      ASSERT_EQ(convolved(c, family, finish), expected)
          << name_of(family) << ", " << c.height << "x" << c.width << ", " << c.inputs << " -> "
          << c.outputs << " by " << c.kernel;
    }
  }
}

TEST(FewOutputs, HaveTheSameBitsInEveryFamily) {
  for (const int64_t width : {1, 2, 3, 15, 16, 17, 28, 31, 33, 49}) {
    for (int64_t outputs = 1; outputs <= 9; ++outputs) {
      for (const int64_t inputs : {1, 3, 6, 7}) {
        const int64_t kernel = 1 + (width + outputs + inputs) % 5;
        expect_same_bits({1 + outputs % 3, width, kernel, inputs, outputs, outputs % kernel});
      }
    }
  }
}

}  // namespace
}  // namespace hanse
