// Closed forms against autograd in float64, on sizes that reach every path: whole products, tiles,
// last tiles that are smaller, batches of one and of more rows than a tile takes.
#include <algorithm>

#include <gtest/gtest.h>

#include "model/layers/dense.hpp"
#include "reference.hpp"
#include "support.hpp"

namespace hanse {
namespace {

struct DenseCase {
  std::string kind;
  std::vector<int64_t> hidden;
  int64_t inputs, classes, rows;
};

const std::vector<DenseCase>& dense_cases() {
  static const std::vector<DenseCase> cases = {
      {"linear", {}, 1, 2, 1},
      {"linear", {}, 784, 10, 10},
      {"linear", {}, 37, 3, 257},
      {"linear", {}, 1021, 67, 61},  // tiles with rests
      {"mlp", {1}, 1, 2, 1},
      {"mlp", {200}, 784, 10, 20},  // tiles
      {"mlp", {33, 17, 5}, 19, 7, 13},
      {"mlp", {131}, 997, 62, 1},
      {"mlp", {301, 40}, 777, 11, 65},
      {"mlp", {129, 67}, 1531, 3, 23},
      // Weights above 1 MiB: parts with rests, all rows that are taken, and one.
      {"mlp", {1040, 263}, 16, 5, 21},
      {"mlp", {528, 500}, 8, 3, 64},
      {"mlp", {8208, 33}, 5, 2, 1},
  };
  return cases;
}

class DenseLosses : public ::testing::TestWithParam<std::string> {};

TEST_P(DenseLosses, MatchAutograd) {
  const std::string loss = GetParam();
  for (const DenseCase& c : dense_cases()) {
    SCOPED_TRACE(c.kind + " " + std::to_string(c.inputs) + " B=" + std::to_string(c.rows));
    const int64_t classes = classes_for(loss, c.classes);
    const auto model = make_model(model_options(c.kind, loss, c.hidden), {c.inputs}, classes);
    const Samples samples({c.inputs}, classes, c.rows);
    const std::vector<float> row = initial_row(*model);
    const LossAndGradient actual = loss_and_gradient(*model, row, samples.batch());
    const Reference expected = reference(c.kind, loss, *model, {c.inputs}, row, samples.batch());
    EXPECT_NEAR(actual.loss, expected.loss, 2e-6 * std::max(1.0, expected.loss));
    expect_close(model->layout(), actual.gradient, expected.gradient, 1e-5);

    const EvaluationSums sums = model->evaluate(row, samples.batch());
    EXPECT_EQ(sums.loss / static_cast<double>(c.rows), actual.loss);
    EXPECT_EQ(sums.correct, expected.correct);
    EXPECT_EQ(sums.samples, c.rows);
  }
}

TEST_P(DenseLosses, StepIsGradientAndUpdate) {
  const std::string loss = GetParam();
  for (const DenseCase& c : dense_cases()) {
    SCOPED_TRACE(c.kind + " " + std::to_string(c.inputs) + " B=" + std::to_string(c.rows));
    const int64_t classes = classes_for(loss, c.classes);
    const auto model = make_model(model_options(c.kind, loss, c.hidden), {c.inputs}, classes);
    const Samples samples({c.inputs}, classes, c.rows);
    expect_step_is_update(*model, samples.batch(), 0.0);
    expect_step_is_update(*model, samples.batch(), 0.25);
    expect_gradient_in_place(*model, samples.batch());
  }
}

INSTANTIATE_TEST_SUITE_P(All, DenseLosses,
                         ::testing::Values("cross-entropy", "binary-logistic", "squared-error"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Dense, SameBitsOnEveryCallAndInEveryObject) {
  const ModelOptions options = model_options("mlp", "cross-entropy", {131});
  const auto first = make_model(options, {997}, 10), second = make_model(options, {997}, 10);
  const Samples small({997}, 10, 7, 1), large({997}, 10, 300, 2);
  const std::vector<float> row = initial_row(*first);
  const LossAndGradient expected = loss_and_gradient(*first, row, small.batch());
  for (int i = 0; i < 3; ++i) {
    loss_and_gradient(*first, row, large.batch());  // leaves larger buffers behind
    for (Model* model : {first.get(), second.get()}) {
      const LossAndGradient again = loss_and_gradient(*model, row, small.batch());
      EXPECT_EQ(again.loss, expected.loss);
      EXPECT_EQ(again.gradient, expected.gradient);
    }
  }
}

TEST(Dense, DrawsNoNoise) {
  const auto model = make_model(model_options("mlp", "cross-entropy"), {5}, 3);
  const Samples samples({5}, 3, 4);
  std::vector<float> row = initial_row(*model);
  RandomStream used = noise_stream(), untouched = noise_stream();
  model->sgd_step(row, samples.batch(), used, 0.1, 0.0);
  EXPECT_EQ(used.next(), untouched.next());
}

// One output with all weights 1: the delta of the input is the mask itself.
struct DropoutRun {
  std::vector<float> mask;  // [n]
  float logit = 0;
};

DropoutRun run_dropout(int64_t n, double share, RandomStream* noise) {
  ParameterLayout layout;
  DenseOptions options;
  options.rectify_input = true;
  options.input_dropout = share;
  DenseStack stack(layout, {n, 1}, options);
  std::vector<float> row(static_cast<std::size_t>(n + 1), 1.0f);
  row.back() = 0.0f;  // bias
  const std::vector<float> input(static_cast<std::size_t>(n), 0.5f);
  float* logits = stack.forward(row.data(), input.data(), 1, noise);
  DropoutRun run;
  run.logit = logits[0];
  logits[0] = 1.0f;
  std::vector<float> gradient(row.size());
  const float* delta = stack.backward(row.data(), {{.row = gradient.data()}});
  run.mask.assign(delta, delta + n);
  return run;
}

TEST(Dropout, DropsItsShareAndScalesTheRest) {
  constexpr int64_t kUnits = 40000;
  for (const double share : {0.25, 0.5, 0.1}) {
    RandomStream noise = noise_stream();
    const DropoutRun run = run_dropout(kUnits, share, &noise);
    const auto dropped = std::count(run.mask.begin(), run.mask.end(), 0.0f);
    const double sigma = std::sqrt(share * (1 - share) * kUnits);
    EXPECT_NEAR(static_cast<double>(dropped), share * kUnits, 4 * sigma);
    for (const float factor : run.mask) {
      if (factor != 0.0f) {
        EXPECT_NEAR(factor, 1 / (1 - share), 2e-5);
      }
    }
    const double kept = static_cast<double>(kUnits - dropped);
    EXPECT_NEAR(run.logit, 0.5 * kept / (1 - share), 1e-3 * run.logit);
  }
}

TEST(Dropout, DependsOnItsStreamOnly) {
  RandomStream a = noise_stream(1), b = noise_stream(1), c = noise_stream(2);
  const DropoutRun first = run_dropout(1001, 0.5, &a);
  EXPECT_EQ(first.mask, run_dropout(1001, 0.5, &b).mask);
  EXPECT_NE(first.mask, run_dropout(1001, 0.5, &b).mask);  // the stream has moved on
  EXPECT_NE(first.mask, run_dropout(1001, 0.5, &c).mask);
}

TEST(Dropout, IsOffInEvaluation) {
  const DropoutRun run = run_dropout(1001, 0.5, nullptr);
  EXPECT_EQ(run.mask, std::vector<float>(1001, 1.0f));
  EXPECT_EQ(run.logit, 500.5f);
}

}  // namespace
}  // namespace hanse
