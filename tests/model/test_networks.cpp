#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reference.hpp"
#include "support.hpp"

namespace hanse {
namespace {

struct NetworkCase {
  std::string kind, loss;
  std::vector<int64_t> shape;
  int64_t classes, rows;
  double dropout = 0;

  // The samples of the case, or others of its kind.
  Samples samples() const { return samples(rows, 1); }
  Samples samples(int64_t n, uint64_t seed) const {
    return {shape, classes, n, seed, reads_tokens(kind) ? small_options(kind, loss).vocabulary : 0};
  }
};

std::ostream& operator<<(std::ostream& out, const NetworkCase& c) {
  return out << c.kind << " " << c.loss << " " << ::testing::PrintToString(c.shape)
             << " B=" << c.rows << " dropout " << c.dropout;
}

// Without dropout, so that the reference is the same function.
std::vector<NetworkCase> plain_cases() {
  return {{"cnn-leaf", "cross-entropy", {1, 28, 28}, 62, 3},
          {"cnn-leaf", "cross-entropy", {1, 9, 6}, 5, 1},
          {"cnn-leaf", "squared-error", {3, 7, 8}, 0, 5},
          {"cnn-mcmahan", "cross-entropy", {1, 28, 28}, 10, 3},
          {"cnn-mcmahan", "squared-error", {2, 7, 9}, 0, 4},
          {"cnn-byzfl", "cross-entropy", {1, 28, 28}, 10, 3},
          {"cnn-byzfl", "squared-error", {2, 17, 16}, 0, 4},
          {"lenet", "cross-entropy", {1, 28, 28}, 10, 7},
          {"lenet", "cross-entropy", {3, 32, 32}, 10, 2},
          {"lenet", "binary-logistic", {2, 13, 15}, 2, 4},
          {"resnet18", "cross-entropy", {3, 16, 12}, 5, 3},
          {"resnet18", "binary-logistic", {1, 9, 9}, 2, 1},
          {"lstm", "cross-entropy", {9}, 11, 4},
          {"lstm", "squared-error", {1}, 0, 1},
          {"transformer", "cross-entropy", {7}, 11, 3},
          {"transformer", "binary-logistic", {1}, 2, 5}};
}

std::vector<NetworkCase> all_cases() {
  std::vector<NetworkCase> cases = plain_cases();
  cases.push_back({"cnn-cifar", "cross-entropy", {3, 32, 32}, 10, 2});
  cases.push_back({"cnn-cifar", "squared-error", {1, 7, 10}, 0, 5});
  cases.push_back({"cnn-cifar", "binary-logistic", {3, 8, 6}, 2, 1});
  cases.push_back({"lstm", "cross-entropy", {5}, 4, 3, 0.25});
  cases.push_back({"transformer", "squared-error", {6}, 0, 2, 0.25});
  return cases;
}

std::unique_ptr<Model> make_case(const NetworkCase& c) {
  ModelOptions options = small_options(c.kind, c.loss);
  options.dropout = c.dropout;
  return make_model(options, c.shape, c.classes);
}

TEST(Networks, GradientMatchesPlainAutograd) {
  for (const NetworkCase& c : plain_cases()) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto model = make_case(c);
    const Samples samples = c.samples();
    const std::vector<float> row = initial_row(*model);
    const LossAndGradient actual = loss_and_gradient(*model, row, samples.batch());
    const Reference expected = reference(c.kind, c.loss, *model, c.shape, row, samples.batch());
    EXPECT_NEAR(actual.loss, expected.loss, 2e-6 * std::max(1.0, expected.loss));
    expect_close(model->layout(), actual.gradient, expected.gradient, 2e-5);
  }
}

TEST(Networks, EvaluationHasNoDropout) {
  for (const NetworkCase& c : all_cases()) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto model = make_case(c);
    const Samples samples = c.samples();
    const std::vector<float> row = initial_row(*model);
    const Reference expected = reference(c.kind, c.loss, *model, c.shape, row, samples.batch());
    const EvaluationSums sums = model->evaluate(row, samples.batch());
    EXPECT_NEAR(sums.loss / static_cast<double>(c.rows), expected.loss,
                2e-6 * std::max(1.0, expected.loss));
    EXPECT_EQ(sums.correct, expected.correct);
  }
}

// Along the gradient of each tensor the loss rises by the gradient's norm; the dropout masks are
// the same on both sides, because the noise stream is.
TEST(Networks, GradientMatchesFiniteDifferences) {
  for (const NetworkCase& c : all_cases()) {
    // So deep that a ReLU switches within any step that float32 can tell.
    if (c.kind == "resnet18") continue;
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto model = make_case(c);
    const Samples samples = c.samples();
    const std::vector<float> row = initial_row(*model);
    const LossAndGradient center = loss_and_gradient(*model, row, samples.batch());
    for (const ParameterSlot& slot : model->layout().slots()) {
      const auto begin = static_cast<std::size_t>(slot.offset);
      const auto end = begin + static_cast<std::size_t>(slot.size);
      double square = 0;
      for (std::size_t i = begin; i < end; ++i) {
        square += static_cast<double>(center.gradient[i]) * static_cast<double>(center.gradient[i]);
      }
      if (square == 0) continue;  // recurrent weights of a single step
      const double norm = std::sqrt(square), h = std::min(2e-3, 2e-4 / norm);
      std::vector<float> up = row, down = row;
      for (std::size_t i = begin; i < end; ++i) {
        const double step = h * static_cast<double>(center.gradient[i]) / norm;
        up[i] = static_cast<float>(static_cast<double>(row[i]) + step);
        down[i] = static_cast<float>(static_cast<double>(row[i]) - step);
      }
      const double slope = (loss_and_gradient(*model, up, samples.batch()).loss -
                            loss_and_gradient(*model, down, samples.batch()).loss) /
                           (2 * h);
      EXPECT_NEAR(slope, norm, 0.02 * norm + 2e-4) << slot.name;
    }
  }
}

TEST(Networks, StepIsGradientAndUpdate) {
  for (const NetworkCase& c : all_cases()) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto model = make_case(c);
    const Samples samples = c.samples();
    expect_step_is_update(*model, samples.batch(), 0.0);
    expect_step_is_update(*model, samples.batch(), 0.25);
    expect_gradient_in_place(*model, samples.batch());
  }
}

TEST(Networks, SameBitsOnEveryCallAndInEveryObject) {
  for (const NetworkCase& c : all_cases()) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto first = make_case(c), second = make_case(c);
    const Samples samples = c.samples(), other = c.samples(c.rows + 3, 2);
    const std::vector<float> row = initial_row(*first), other_row = initial_row(*first, 2);
    const LossAndGradient expected = loss_and_gradient(*first, row, samples.batch());
    const EvaluationSums sums = first->evaluate(row, samples.batch());
    for (int i = 0; i < 2; ++i) {
      loss_and_gradient(*first, other_row, other.batch());  // binds another row
      for (Model* model : {first.get(), second.get()}) {
        const LossAndGradient again = loss_and_gradient(*model, row, samples.batch());
        EXPECT_EQ(again.loss, expected.loss);
        EXPECT_EQ(again.gradient, expected.gradient);
        EXPECT_EQ(model->evaluate(row, samples.batch()).loss, sums.loss);
      }
    }
  }
}

// The leaves are bound to the row's memory once: what is written there must be seen.
TEST(Networks, SeesWritesToABoundRow) {
  const NetworkCase c{"lenet", "cross-entropy", {1, 16, 16}, 4, 6};
  const auto model = make_case(c), fresh = make_case(c);
  const Samples samples = c.samples();
  std::vector<float> row = initial_row(*model);
  RandomStream noise = noise_stream();
  for (int i = 0; i < 3; ++i) model->sgd_step(row, samples.batch(), noise, 0.1, 0.0);
  row = initial_row(*model, 7);
  const std::vector<float> copy = row;
  const LossAndGradient actual = loss_and_gradient(*model, row, samples.batch());
  const LossAndGradient expected = loss_and_gradient(*fresh, copy, samples.batch());
  EXPECT_EQ(actual.loss, expected.loss);
  EXPECT_EQ(actual.gradient, expected.gradient);
}

TEST(Networks, StepsLowerTheLoss) {
  for (const NetworkCase& c : all_cases()) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto model = make_case(c);
    const Samples samples = c.samples();
    std::vector<float> row = initial_row(*model);
    RandomStream noise = noise_stream();
    const double before = model->evaluate(row, samples.batch()).loss;
    for (int i = 0; i < 10; ++i) model->sgd_step(row, samples.batch(), noise, 0.02, 0.0);
    EXPECT_LT(model->evaluate(row, samples.batch()).loss, before);
  }
}

TEST(Networks, DropoutFollowsTheNoiseStream) {
  for (const NetworkCase& c : {NetworkCase{"cnn-cifar", "cross-entropy", {3, 8, 8}, 10, 4},
                               {"lstm", "cross-entropy", {5}, 4, 6, 0.5},
                               {"transformer", "cross-entropy", {5}, 4, 6, 0.5}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto model = make_case(c);
    const Samples samples = c.samples();
    const std::vector<float> row = initial_row(*model);
    const LossAndGradient first = loss_and_gradient(*model, row, samples.batch(), 1);
    EXPECT_EQ(first.gradient, loss_and_gradient(*model, row, samples.batch(), 1).gradient);
    EXPECT_NE(first.gradient, loss_and_gradient(*model, row, samples.batch(), 2).gradient);
  }
}

}  // namespace
}  // namespace hanse
