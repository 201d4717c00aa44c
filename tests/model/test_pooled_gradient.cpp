// The kernels that leave out zeros of a pooled image's gradient, beside those that multiply them:
// the same bits, on numbers that round.
#include <algorithm>
#include <cstdint>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "model/kernels/convolution_kernels.hpp"

namespace hanse {
namespace {

struct PooledCase {
  int64_t height, width, kernel, inputs, outputs, margin;  // as in Convolution

  Convolution forward() const { return {height, width, kernel, inputs, outputs, margin}; }
  int64_t x_height() const { return height + kernel - 1; }
  int64_t x_width() const { return width + kernel - 1; }
  int64_t border() const { return kernel - 1 - margin; }  // of the gradient
};

std::ostream& operator<<(std::ostream& out, const PooledCase& c) {
  return out << c.height << "x" << c.width << ", " << c.inputs << " -> " << c.outputs << " by "
             << c.kernel << ", margin " << c.margin;
}

// Single windows, odd sides, every rest of a vector, parts of patches, and images of several blocks
// of rows and strips of them.
const std::vector<PooledCase>& pooled_cases() {
  static const std::vector<PooledCase> cases = {
      {2, 2, 1, 1, 1, 0},   {3, 3, 2, 1, 6, 1},     {2, 3, 3, 3, 7, 1},   {5, 2, 5, 6, 16, 0},
      {15, 17, 5, 3, 6, 2}, {17, 15, 4, 8, 8, 3},   {4, 17, 3, 7, 33, 2}, {28, 28, 5, 1, 6, 2},
      {6, 9, 5, 33, 17, 2}, {10, 28, 3, 32, 64, 1}, {7, 8, 7, 17, 3, 3},  {8, 6, 3, 65, 5, 0},
      {25, 31, 2, 2, 97, 0}};
  return cases;
}

AlignedFloats normal_floats(int64_t n, double zeros, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  AlignedFloats values(static_cast<std::size_t>(n + kReadAhead));
  for (float& value : values) {
    const bool is_zero = random.uniform() < zeros;
    value = is_zero ? 0.0F : static_cast<float>(random.normal());
  }
  return values;
}

// A case's operands. Weights are w(o, i, j, v), in no kernel's order.
struct Operands {
  explicit Operands(const PooledCase& of)
      : c(of.forward()),
        x(normal_floats(of.x_height() * of.x_width() * c.inputs, 0, 1)),
        gate(normal_floats(of.x_height() * of.x_width() * c.inputs, 0.3, 2)),
        d(normal_floats(pooled_size(), 0.3, 3)),
        w(normal_floats(c.outputs * c.kernel * c.patch(), 0, 4)),
        which(static_cast<std::size_t>(pooled_size() + kReadAhead)) {
    RandomStream random(5, Purpose::kData);
    for (int32_t& place : which) place = static_cast<int32_t>(random.below(4));
    const int64_t margin = c.margin * x_row();
    std::fill_n(x.begin(), margin, 0.0F);
    std::fill_n(x.begin() + of.x_height() * x_row() - margin, margin, 0.0F);
  }

  int64_t pooled_size() const { return c.height / 2 * (c.width / 2) * c.outputs; }
  int64_t x_row() const { return (c.width + c.kernel - 1) * c.inputs; }
  ConstImage image() const { return {x.data(), c.inputs, x_row()}; }
  PooledGradient pooled() const { return {c.height / 2, c.width / 2, d.data(), which.data()}; }

  Convolution c;
  AlignedFloats x, gate, d, w;
  std::vector<int32_t> which;
};

// The gradient of y with its zeros, in a border of the kernel less 1.
struct Unpooled {
  Unpooled(const Operands& of, const ConvolutionKernels& kernels)
      : border(of.c.kernel - 1),
        row((of.c.width + 2 * border) * of.c.outputs),
        values(static_cast<std::size_t>((of.c.height + 2 * border) * row + kReadAhead)) {
    kernels.unpool(of.c.height / 2, of.c.width / 2, of.c.outputs, of.d.data(), of.which.data(),
                   inside(of.c));
  }
  Image inside(const Convolution& c) {
    return {values.data() + border * (row + c.outputs), c.outputs, row};
  }
  int64_t border, row;
  AlignedFloats values;
};

// Calls test(case, operands, unpooled gradient, kernels) for every case and family.
template <class F>
void for_each_case(F test) {
  for (const PooledCase& one : pooled_cases()) {
    for (const VectorFamily family : families()) {
      SCOPED_TRACE(::testing::PrintToString(one) + " " + name_of(family));
      const ConvolutionKernels& kernels = convolution_kernels(family);
      const Operands of(one);
      Unpooled unpooled(of, kernels);
      test(one, of, unpooled, kernels);
    }
  }
}

TEST(PooledGradient, AddsTheSumsOfAllProducts) {
  for_each_case([](const PooledCase&, const Operands& of, Unpooled& unpooled,
                   const ConvolutionKernels& kernels) {
    const Convolution& c = of.c;
    AlignedFloats expected(static_cast<std::size_t>(c.weights())),
        actual(static_cast<std::size_t>(c.outputs * c.output_weights()));
    PooledWork work;
    for (int image = 0; image < 2; ++image) {  // the second adds to the first
      kernels.add_weight_gradient(c, of.image(), unpooled.inside(c), expected.data());
      kernels.add_pooled_gradient(c, of.image(), of.pooled(), actual.data(), work);
    }
    for (int64_t o = 0; o < c.outputs; ++o) {
      for (int64_t k = 0; k < c.kernel * c.patch(); ++k) {
        const int64_t at = o * c.output_weights() + k / c.patch() * c.patch_line() + k % c.patch();
        ASSERT_EQ(actual[std::size_t(at)], expected[std::size_t(k * c.line() + o)])
            << "output " << o << ", weight " << k;
      }
    }
  });
}

// The weights as convolve() reads them to take a gradient back, and by output.
AlignedFloats flipped(const Operands& of, const Convolution& back) {
  AlignedFloats to(static_cast<std::size_t>(back.weights()));
  for (int64_t o = 0; o < of.c.outputs; ++o) {
    for (int64_t k = 0; k < of.c.kernel * of.c.patch(); ++k) {
      const int64_t place = of.c.kernel * of.c.kernel - 1 - k / of.c.inputs;
      to[std::size_t((place * of.c.outputs + o) * back.line() + k % of.c.inputs)] =
          of.w[std::size_t(o * of.c.kernel * of.c.patch() + k)];
    }
  }
  return to;
}

AlignedFloats by_output(const Operands& of) {
  AlignedFloats to(static_cast<std::size_t>(of.c.outputs * of.c.output_weights()));
  for (int64_t line = 0; line < of.c.outputs * of.c.kernel; ++line) {
    std::copy_n(of.w.data() + line * of.c.patch(), of.c.patch(),
                to.data() + line * of.c.patch_line());
  }
  return to;
}

TEST(PooledGradient, IsTakenBackAsWithItsZeros) {
  for_each_case([](const PooledCase& one, const Operands& of, Unpooled& unpooled,
                   const ConvolutionKernels& kernels) {
    const Convolution& c = of.c;
    const Convolution back{.height = one.x_height() - 2 * c.margin,
                           .width = one.x_width() - 2 * c.margin,
                           .kernel = c.kernel,
                           .inputs = c.outputs,
                           .outputs = c.inputs,
                           .margin = one.border()};
    if (back.height < 1 || back.width < 1) return;
    const std::size_t size(static_cast<std::size_t>(back.height * back.width * c.inputs));
    const int64_t row = back.width * c.inputs;
    std::vector<float> expected(size), actual(size);
    const ConstImage gate{of.gate.data(), c.inputs, row};
    const ConstImage d{unpooled.values.data() + c.margin * (unpooled.row + c.outputs), c.outputs,
                       unpooled.row};
    // Rows of pixels have no gaps: the border of the gradient is what this margin leaves of it.
    AlignedFloats cut;
    for (int64_t r = 0; r < c.height + 2 * one.border(); ++r) {
      const float* from = d.data + r * d.row;
      cut.insert(cut.end(), from, from + (c.width + 2 * one.border()) * c.outputs);
    }
    cut.resize(cut.size() + kReadAhead);
    kernels.convolve(back, {cut.data(), c.outputs, (c.width + 2 * one.border()) * c.outputs},
                     flipped(of, back).data(), {expected.data(), c.inputs, row}, {.gate = gate});
    PooledWork work;
    AlignedFloats dx(of.x.size(), 7.0F);
    kernels.take_back_pooled(c, of.pooled(), by_output(of).data(), gate,
                             {dx.data(), c.inputs, of.x_row()}, {actual.data(), c.inputs, row},
                             work);
    EXPECT_EQ(actual, expected);
  });
}

}  // namespace
}  // namespace hanse
