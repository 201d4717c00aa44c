// What a network must do whose file a user writes.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "support.hpp"

namespace hanse {

// z = x W^T + b for three classes: the built-in linear model.
inline void expect_is_linear(Model& network, int64_t values) {
  const auto linear = make_model(model_options("linear", "cross-entropy"), {values}, 3);
  ASSERT_EQ(network.n_params(), linear->n_params());
  EXPECT_EQ(network.layout().slots()[0].name, "weight");
  const Samples samples({values}, 3, 9);
  const std::vector<float> row = initial_row(*linear);
  const LossAndGradient actual = loss_and_gradient(network, row, samples.batch());
  const LossAndGradient expected = loss_and_gradient(*linear, row, samples.batch());
  EXPECT_NEAR(actual.loss, expected.loss, 1e-6);
  expect_close(linear->layout(), actual.gradient, expected.gradient, 1e-6);
  EXPECT_NEAR(network.evaluate(row, samples.batch()).loss,
              linear->evaluate(row, samples.batch()).loss, 1e-5);
  expect_step_is_update(network, samples.batch(), 0.25);
  expect_gradient_in_place(network, samples.batch());
}

// The same with its weight [3, 4] frozen.
inline void expect_weight_is_frozen(Model& network) {
  EXPECT_EQ(network.layout().slots()[0].name, "bias");
  EXPECT_EQ(network.layout().n_trainable(), 3);
  EXPECT_EQ(network.layout().n_frozen(), 12);
  const Samples samples({4}, 3, 8);
  std::vector<float> row = initial_row(network);
  const std::vector<float> before = row;
  RandomStream noise = noise_stream();
  network.sgd_step(row, samples.batch(), noise, 0.5, 0.1);
  EXPECT_TRUE(std::equal(row.begin() + 3, row.end(), before.begin() + 3));
  EXPECT_NE(row[0], before[0]);
}

// Samples of 4 values. Returns the row after move_buffers() behind a gradient of `samples`.
inline std::vector<float> expect_only_training_moves_buffers(Model& network,
                                                             const Samples& samples) {
  const std::vector<float> row = initial_row(network);
  const int64_t first = network.layout().n_trainable();
  const LossAndGradient found = loss_and_gradient(network, row, samples.batch());
  EXPECT_EQ(std::count(found.gradient.begin() + first, found.gradient.end(), 0.0F),
            std::ssize(row) - first);
  EXPECT_EQ(row, initial_row(network));
  expect_gradient_in_place(network, samples.batch());
  std::vector<float> moved = row, stepped = row, evaluated = row;
  loss_and_gradient(network, row, samples.batch());
  network.move_buffers(moved);
  EXPECT_TRUE(std::equal(row.begin(), row.begin() + first, moved.begin()));
  EXPECT_NE(moved, row);
  RandomStream noise = noise_stream();
  network.sgd_step(stepped, samples.batch(), noise, 0.1, 0.5);  // decay is not for buffers
  EXPECT_TRUE(std::equal(moved.begin() + first, moved.end(), stepped.begin() + first));
  EXPECT_NE(stepped[0], row[0]);
  network.evaluate(evaluated, samples.batch());
  EXPECT_EQ(evaluated, row);
  return moved;
}

// On every call and in every object that `load` makes, for samples of 4 values.
template <class Load>
void expect_same_bits(const Load& load) {
  const std::unique_ptr<Model> first = load(), second = load();
  const Samples samples({4}, 3, 8), other({4}, 3, 5, 2);
  const std::vector<float> row = initial_row(*first);
  std::vector<float> other_row = row;
  for (float& value : other_row) value += 0.125F;
  const LossAndGradient expected = loss_and_gradient(*first, row, samples.batch());
  const EvaluationSums sums = first->evaluate(row, samples.batch());
  for (int i = 0; i < 4; ++i) {  // an optimizing interpreter changes its mind after two calls
    loss_and_gradient(*first, other_row, other.batch());
    for (Model* model : {first.get(), second.get()}) {
      const LossAndGradient again = loss_and_gradient(*model, row, samples.batch());
      EXPECT_EQ(again.loss, expected.loss);
      EXPECT_EQ(again.gradient, expected.gradient);
      EXPECT_EQ(model->evaluate(row, samples.batch()).loss, sums.loss);
    }
  }
}

}  // namespace hanse
