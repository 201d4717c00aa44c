// The linear model without bias, model.bias = false.
#include <algorithm>

#include <gtest/gtest.h>

#include "hanse/base/kind.hpp"
#include "support.hpp"

namespace hanse {
namespace {

const char* const kLosses[] = {"cross-entropy", "binary-logistic", "squared-error"};

struct Size {
  int64_t inputs, classes, rows;
};

// The last one is multiplied in tiles with rests.
const Size kSizes[] = {{1, 2, 1}, {10, 3, 10}, {37, 3, 257}, {1021, 67, 61}};

ModelOptions without_bias(const std::string& kind, const std::string& loss) {
  ModelOptions options = small_options(kind, loss);
  options.bias = false;
  return options;
}

TEST(Bias, WithoutItARegressionHasAParameterAFeature) {
  const auto model = make_model(without_bias("linear", "squared-error"), {10}, 0);
  EXPECT_EQ(model->n_params(), 10);
  ASSERT_EQ(model->layout().slots().size(), 1U);
  EXPECT_EQ(model->layout().slots()[0].name, "fc1.weight");
  EXPECT_EQ(make_model(without_bias("linear", "cross-entropy"), {7}, 4)->n_params(), 28);
}

TEST(Bias, OtherKindsKeepTheirs) {
  for (const auto& kind : model_kinds()) {
    if (kind.name == "linear") continue;
    const std::vector<int64_t> shape = small_shape(kind.name);
    const auto with = make_model(small_options(kind.name, "cross-entropy"), shape, 3);
    const auto without = make_model(without_bias(kind.name, "cross-entropy"), shape, 3);
    EXPECT_EQ(without->n_params(), with->n_params()) << kind.name;
  }
}

// Central differences of the loss; x and w are small, so that rounding stays below the tolerance.
TEST(Bias, GradientIsTheSlopeOfTheLoss) {
  for (const std::string loss : kLosses) {
    const int64_t classes = classes_for(loss, 3);
    const auto model = make_model(without_bias("linear", loss), {5}, classes);
    const Samples samples({5}, classes, 13);
    const std::vector<float> row = initial_row(*model);
    const auto actual = loss_and_gradient(*model, row, samples.batch());
    for (std::size_t p = 0; p < row.size(); ++p) {
      constexpr float kStep = 1.0f / 32;
      std::vector<float> above = row, below = row;
      above[p] += kStep;
      below[p] -= kStep;
      const double rise = loss_and_gradient(*model, above, samples.batch()).loss -
                          loss_and_gradient(*model, below, samples.batch()).loss;
      const double run = static_cast<double>(above[p]) - static_cast<double>(below[p]);
      EXPECT_NEAR(actual.gradient[p], rise / run, 2e-4) << loss << " " << p;
    }
  }
}

// The same bits as the weights of a model whose bias is 0.
TEST(Bias, WithoutItIsABiasOfZero) {
  for (const std::string loss : kLosses) {
    for (const Size& size : kSizes) {
      SCOPED_TRACE(loss + " B=" + std::to_string(size.rows));
      const int64_t classes = classes_for(loss, size.classes);
      const auto with = make_model(model_options("linear", loss), {size.inputs}, classes);
      const auto without = make_model(without_bias("linear", loss), {size.inputs}, classes);
      const Samples samples({size.inputs}, classes, size.rows);
      const std::vector<float> row = initial_row(*without);
      std::vector<float> padded = row;
      padded.resize(static_cast<std::size_t>(with->n_params()), 0.0f);

      const auto expected = loss_and_gradient(*with, padded, samples.batch());
      const auto actual = loss_and_gradient(*without, row, samples.batch());
      EXPECT_EQ(actual.loss, expected.loss);
      EXPECT_TRUE(
          std::equal(actual.gradient.begin(), actual.gradient.end(), expected.gradient.begin()));
      EXPECT_EQ(without->evaluate(row, samples.batch()).loss,
                with->evaluate(padded, samples.batch()).loss);
    }
  }
}

TEST(Bias, StepWithoutItIsGradientAndUpdate) {
  for (const std::string loss : kLosses) {
    for (const Size& size : kSizes) {
      SCOPED_TRACE(loss + " B=" + std::to_string(size.rows));
      const int64_t classes = classes_for(loss, size.classes);
      const auto model = make_model(without_bias("linear", loss), {size.inputs}, classes);
      const Samples samples({size.inputs}, classes, size.rows);
      expect_step_is_update(*model, samples.batch(), 0.0);
      expect_step_is_update(*model, samples.batch(), 0.25);
      expect_gradient_in_place(*model, samples.batch());
    }
  }
}

}  // namespace
}  // namespace hanse
