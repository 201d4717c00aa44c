// Layers in bfloat16 against sums of the reference, bit for bit, with every family of kernels.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bfloat16_reference.hpp"
#include "model/layers/bfloat16_convolution.hpp"
#include "model/layers/bfloat16_dense.hpp"

namespace hanse {
namespace {

using testing::factor_values;
using testing::product_of;
using testing::same_bits;
using testing::sum_of_products;
using testing::tested_kernels;
using testing::transposed;

template <class Values, class Expected>
void expect_bits(const Values& found, const Expected& expected, const std::string& what) {
  ASSERT_GE(found.size(), expected.size());
  int64_t differing = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    differing += same_bits(found[i], expected[i]) ? 0 : 1;
  }
  EXPECT_EQ(differing, 0) << what;
}

struct DenseValues {
  int64_t rows = 21, out = 37, in = 50;
  std::vector<float> x = factor_values(rows * in, 0, 1), w = factor_values(out * in, 0, 2);
  std::vector<float> bias = factor_values(rows * out, 0, 3), d = factor_values(rows * out, 0, 4);

  WeightGradient gradient() const { return {0, out, in, rows, d.data(), x.data()}; }
  std::vector<float> weight_gradient() const {
    return product_of({out, in, rows}, transposed(d, rows, out), x);
  }
};

// Weights of 32 columns and more are packed in parts: on the way forwards those of 37 x 4000 values
// are two of 32 and 5 outputs, backwards those of 4000 x 37 two of 32 and 5 inputs.
TEST(Bfloat16Dense, ALayersProductsAreTheReferences) {
  for (const DenseValues& v : {DenseValues{}, DenseValues{3, 37, 4000}, DenseValues{3, 4000, 37}}) {
    const auto forward = product_of({v.rows, v.out, v.in}, v.x, transposed(v.w, v.out, v.in));
    const auto below = product_of({v.rows, v.in, v.out}, v.d, v.w);
    const auto weight = v.weight_gradient();
    for (const auto& [name, kernels] : tested_kernels()) {
      Bfloat16Dense layer(kernels);
      std::vector<float> y = v.bias, expected = v.bias;
      layer.add_product(v.rows, v.out, v.in, v.x.data(), v.w.data(), y.data());
      for (std::size_t i = 0; i < y.size(); ++i) expected[i] += forward[i];
      expect_bits(y, expected, name);
      std::vector<float> row = v.w, dx(v.x.size());
      layer.add_gradient(v.gradient(), row.data(),
                         {{.row = row.data(), .keep = 0.9F, .scale = -0.1F}}, dx.data());
      expect_bits(dx, below, name);
      for (std::size_t i = 0; i < row.size(); ++i) {
        EXPECT_EQ(row[i], std::fma(-0.1F, weight[i], 0.9F * v.w[i]));
      }
    }
  }
}

// Keeps what it gets.
struct KeptStep final : RowStep {
  std::vector<float> kept;
  void apply(int64_t offset, const float* gradient, int64_t size) override {
    kept.resize(std::max(kept.size(), static_cast<std::size_t>(offset + size)));
    std::copy_n(gradient, size, kept.begin() + offset);
  }
};

TEST(Bfloat16Dense, AStepGetsTheGradientInParts) {
  DenseValues v;
  v.out = 70;
  v.in = 2000;  // 64K floats are 32 rows
  v.rows = 3;
  v.x = factor_values(v.rows * v.in, 0, 1);
  v.d = factor_values(v.rows * v.out, 0, 4);
  for (const auto& [name, kernels] : tested_kernels()) {
    KeptStep step;
    Bfloat16Dense(kernels).add_gradient(v.gradient(), nullptr, {.step = &step}, nullptr);
    expect_bits(step.kept, v.weight_gradient(), name);
  }
}

// A convolution of 40 x 17 pixels, 3 x 3: two stripes and a rest, and outputs that fill no panel.
struct ConvolutionValues {
  explicit ConvolutionValues(int64_t inputs) : c{40, 17, 3, inputs, 19, 0} {}

  Convolution c;
  int64_t size = c.kernel * c.kernel * c.inputs;
  int64_t x_row = (c.width + 2) * c.inputs, y_row = c.width * c.outputs;
  std::vector<float> x = factor_values((c.height + 2) * x_row + kReadAhead, 0, 1);
  std::vector<float> w = factor_values(size * c.outputs, 0, 2);
  std::vector<float> bias = factor_values(c.line(), 0, 3);
  std::vector<float> d = factor_values(c.height * y_row, 0, 4);

  // The patches [pixels, size].
  std::vector<float> patches() const {
    std::vector<float> found;
    for (int64_t r = 0; r < c.height; ++r) {
      for (int64_t column = 0; column < c.width; ++column) {
        for (int64_t i = 0; i < c.kernel; ++i) {
          const float* from = x.data() + (r + i) * x_row + column * c.inputs;
          found.insert(found.end(), from, from + c.kernel * c.inputs);
        }
      }
    }
    return found;
  }
};

class Bfloat16Convolutions : public ::testing::TestWithParam<int64_t> {};

// Rows of a patch that are whole blocks, and others.
INSTANTIATE_TEST_SUITE_P(Inputs, Bfloat16Convolutions, ::testing::Values(1, 5, 6, 32));

TEST_P(Bfloat16Convolutions, APixelIsTheReferencesSumOfItsPatch) {
  const ConvolutionValues v(GetParam());
  const Convolution& c = v.c;
  const auto sums = product_of({c.height * c.width, c.outputs, v.size}, v.patches(), v.w);
  std::vector<float> expected, gated;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    expected.push_back(std::max(0.0F, v.bias[i % static_cast<std::size_t>(c.outputs)] + sums[i]));
    gated.push_back(v.d[i] <= 0 ? 0 : sums[i]);
  }
  for (const auto& [name, kernels] : tested_kernels()) {
    PackedPairs packed(static_cast<std::size_t>(right_pairs(v.size, c.outputs)));
    kernels.pack_right({v.w.data(), c.outputs}, v.size, c.outputs, packed.data());
    Bfloat16Convolution convolution(kernels);
    std::vector<float> y(sums.size());
    const Image to{y.data(), c.outputs, v.y_row};
    const ConstImage from{v.x.data(), c.inputs, v.x_row};
    convolution.convolve(c, from, packed.data(), to, {.bias = v.bias.data(), .rectify = true});
    expect_bits(y, expected, name);
    convolution.convolve(c, from, packed.data(), to, {.gate = {v.d.data(), c.outputs, v.y_row}});
    expect_bits(y, gated, name);
  }
}

TEST_P(Bfloat16Convolutions, AWeightsGradientAddsOneStripeAfterTheOther) {
  const ConvolutionValues v(GetParam());
  const Convolution& c = v.c;
  const auto patches = v.patches();
  AlignedFloats expected(static_cast<std::size_t>(v.size * c.line()), 0.5F);
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 15}, {15, 15}, {30, 10}}) {
    for (int64_t i = 0; i < v.size; ++i) {
      for (int64_t o = 0; o < c.outputs; ++o) {
        expected[static_cast<std::size_t>(i * c.line() + o)] +=
            sum_of_products(rows * c.width, patches.data() + first * c.width * v.size + i, v.size,
                            v.d.data() + first * v.y_row + o, c.outputs);
      }
    }
  }
  for (const auto& [name, kernels] : tested_kernels()) {
    AlignedFloats gradient(expected.size(), 0.5F);
    Bfloat16Convolution(kernels).add_weight_gradient(
        c, {v.x.data(), c.inputs, v.x_row}, {v.d.data(), c.outputs, v.y_row}, gradient.data());
    expect_bits(gradient, expected, name);
  }
}

}  // namespace
}  // namespace hanse
