// Models in bfloat16 are those in float32, but for the rounding of factors.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/model/threads.hpp"
#include "model/kernels/bfloat16_kernels.hpp"
#include "support.hpp"

namespace hanse {
namespace {

struct NarrowCase {
  std::string kind;
  std::vector<int64_t> shape;
  int64_t tokens = 0;
  double tolerance = 0.03;  // of a tensor's gradient: ReLUs whose sums change their sign, by layers
};

std::string name_of(const ::testing::TestParamInfo<NarrowCase>& info) {
  std::string name = info.param.kind;
  std::erase(name, '-');
  return name;
}

class Bfloat16Models : public ::testing::TestWithParam<NarrowCase> {
 protected:
  static std::unique_ptr<Model> make(Precision precision) {
    const NarrowCase& c = GetParam();
    ModelOptions options = model_options(c.kind, "cross-entropy", {65, 20});
    options.precision = precision;
    options.units = 20;
    options.embedding = 6;
    options.heads = 2;
    options.vocabulary = c.tokens;
    options.channels = 12;
    return make_model(options, c.shape, 5);
  }
};

TEST_P(Bfloat16Models, HaveTheGradientOfFloat32WithinTheirRounding) {
  const NarrowCase& c = GetParam();
  const auto wide = make(Precision::kFloat32), narrow = make(Precision::kBfloat16);
  const Samples samples(c.shape, 5, 13, 1, c.tokens);
  const std::vector<float> row = initial_row(*wide);
  const LossAndGradient expected = loss_and_gradient(*wide, row, samples.batch());
  const LossAndGradient found = loss_and_gradient(*narrow, row, samples.batch());
  EXPECT_NE(found.gradient, expected.gradient);
  EXPECT_NEAR(found.loss, expected.loss, 0.01 * expected.loss);
  for (const ParameterSlot& slot : wide->layout().slots()) {
    double norm = 0, error = 0;
    for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      norm += std::pow(static_cast<double>(expected.gradient[at]), 2);
      error += std::pow(static_cast<double>(found.gradient[at] - expected.gradient[at]), 2);
    }
    EXPECT_LE(std::sqrt(error), c.tolerance * std::sqrt(norm)) << slot.name;
  }
  const EvaluationSums sums = narrow->evaluate(row, samples.batch());
  EXPECT_NEAR(sums.loss / 13, expected.loss, 0.02 * expected.loss);
}

TEST_P(Bfloat16Models, WriteTheirGradientOverTheRow) {
  const NarrowCase& c = GetParam();
  expect_gradient_in_place(*make(Precision::kBfloat16),
                           Samples(c.shape, 5, 13, 1, c.tokens).batch());
}

INSTANTIATE_TEST_SUITE_P(Kinds, Bfloat16Models,
                         ::testing::Values(NarrowCase{"linear", {37}},
                                           NarrowCase{"mlp", {37}, 0, 0.08},
                                           NarrowCase{"lenet", {1, 28, 28}, 0, 0.15},
                                           NarrowCase{"cnn-leaf", {1, 12, 14}, 0, 0.15},
                                           NarrowCase{"resnet18", {3, 13, 10}, 0, 0.35},
                                           NarrowCase{"lstm", {9}, 11},
                                           NarrowCase{"transformer", {9}, 11}),
                         name_of);

TEST(Precision, WhatHasNoSuchProductsIsRefused) {
  ModelOptions options = model_options("graph", "cross-entropy");
  options.precision = Precision::kBfloat16;
  EXPECT_THROW(make_model(options, {7}, 5), InvalidArgument);
  options.precision = Precision::kTf32;
  EXPECT_THROW(make_model(options, {7}, 5), InvalidArgument);
}

// Derivatives along a direction and gradients in factors are products in float32.
TEST(Precision, HessiansAndRecordsAreOfFloat32) {
  ModelOptions options = model_options("mlp", "cross-entropy");
  options.precision = Precision::kBfloat16;
  const auto model = make_model(options, {7}, 5);
  EXPECT_FALSE(model->has_hessian());
  EXPECT_EQ(model->record_product_cost(10), 0);
}

TEST(Precision, SummariesNameTheKernels) {
  EXPECT_EQ(product_kernels({.kind = "graph", .precision = Precision::kBfloat16}, false),
            "LibTorch in float32, of rounded factors");
  for (const std::string kind : {"mlp", "transformer"}) {
    EXPECT_EQ(product_kernels({.kind = kind, .precision = Precision::kBfloat16}, false),
              name_of(fastest_product_family()));
  }
  EXPECT_EQ(product_kernels({.kind = "mlp"}, false), "");
}

TEST(Precision, SummariesNameTensorCoresOnGpus) {
  const std::string cores = "tensor cores, by cuBLAS and cuDNN";
  for (const std::string kind : {"mlp", "resnet18", "transformer", "graph"}) {
    EXPECT_EQ(product_kernels({.kind = kind, .precision = Precision::kBfloat16}, true), cores);
    EXPECT_EQ(product_kernels({.kind = kind, .precision = Precision::kTf32}, true), cores);
    EXPECT_EQ(product_kernels({.kind = kind}, true), "");
  }
}

}  // namespace
}  // namespace hanse
