// What is frozen of a graph: where it is cut, and that passes over the rest are passes over all.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "hanse/model/frozen_part.hpp"
#include "support.hpp"
#include "support/two_layer_graph.hpp"

namespace hanse {
namespace {

// All samples as one block; `off` is added to each value.
class OneBlock final : public FrozenValues {
 public:
  OneBlock(FrozenPart& part, const Samples& samples, float off = 0)
      : values_(static_cast<std::size_t>(samples.rows * part.values())), size_(part.values()) {
    part.compute(samples.features.data(), samples.rows, values_.data());
    for (float& value : values_) value += off;
  }
  void gather(const Batch& batch, float* out) override {
    for (int64_t i = 0; i < batch.rows; ++i) {
      out = std::copy_n(values_.begin() + batch.places[i] * size_, size_, out);
    }
  }

 private:
  std::vector<float> values_;
  int64_t size_;
};

// The gradient of what moves; nobody asks for another.
class HeadGradient final : public RowStep {
 public:
  explicit HeadGradient(std::size_t size) : gradient(size) {}
  bool wants(int64_t offset) const override { return offset >= kHead; }
  void apply(int64_t offset, const float* values, int64_t size) override {
    std::copy_n(values, size, gradient.begin() + offset);
  }

  static constexpr int64_t kHead = 25;
  std::vector<float> gradient;
};

struct Network {
  explicit Network(const TwoLayers& what = {}) {
    ModelOptions options = model_options("graph", "cross-entropy");
    options.path = written(two_layer_graph(what));
    model = make_model(options, {4}, 3);
    row = initial_row(*model);
  }
  FrozenPart* freeze(std::vector<char> moves) {
    return cuttable().freeze({.moves = std::move(moves),
                              .row = row.data(),
                              .samples = std::span(samples.features).first(28)});
  }
  CuttableNetwork& cuttable() { return dynamic_cast<CuttableNetwork&>(*model); }
  // Samples 4, 5, 6, ...
  Batch batch(int64_t rows) const {
    Batch part = samples.batch();
    part.features += 16;
    part.labels += 4;
    part.rows = rows;
    part.places = {.begin = 4};
    return part;
  }

  std::unique_ptr<Model> model;
  std::vector<float> row;
  Samples samples{{4}, 3, 12};
};

TEST(FrozenGraph, WhatItMakesOfASampleIsCutBehindTheLastFrozenOperator) {
  Network network;
  FrozenPart* const part = network.freeze({0, 0, 1, 1});
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->values(), 5);
}

TEST(FrozenGraph, NothingIsFrozenBehindATensorThatMoves) {
  Network network;
  EXPECT_EQ(network.freeze({1, 1, 1, 1}), nullptr);
  EXPECT_EQ(network.freeze({0, 1, 1, 1}), nullptr);
}

// Whose value of a sample depends on the others, so that it is no function of the sample.
TEST(FrozenGraph, AnOperatorThatMixesSamplesIsNotFrozen) {
  Network network({.mixes = true});
  FrozenPart* const part = network.freeze({0, 0, 1, 1});
  ASSERT_NE(part, nullptr);
  std::vector<float> values(12 * 5);
  part->compute(network.samples.features.data(), 12, values.data());
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t o = 0; o < 5; ++o) {
      double h = network.row[static_cast<std::size_t>(20 + o)];
      for (int64_t k = 0; k < 4; ++k) {
        h += static_cast<double>(network.row[static_cast<std::size_t>(o * 4 + k)]) *
             network.samples.features[static_cast<std::size_t>(i * 4 + k)];
      }
      EXPECT_NEAR(values[static_cast<std::size_t>(i * 5 + o)], std::tanh(h), 1e-5);
    }
  }
}

TEST(FrozenGraph, ABufferThatTrainingMovesIsNotFrozen) {
  Network network({.moves_buffer = true});
  const FrozenPart* const part = network.freeze({0, 0, 1, 1, 0});
  ASSERT_NE(part, nullptr);
  const std::string before = part->digest();
  network.row[43] += 1;
  EXPECT_EQ(part->digest(), before);
}

TEST(FrozenGraph, PassesOverTheRestArePassesOverAll) {
  for (const bool mixes : {false, true}) {
    Network network({.mixes = mixes});
    const LossAndGradient all = loss_and_gradient(*network.model, network.row, network.batch(7));
    const double loss = network.model->evaluate(network.row, network.batch(7)).loss;
    FrozenPart& part = *network.freeze({0, 0, 1, 1});
    OneBlock values(part, network.samples);
    network.cuttable().take_frozen(values, part);
    EXPECT_NEAR(network.model->evaluate(network.row, network.batch(7)).loss, loss, 1e-5);
    RandomStream noise = noise_stream();
    HeadGradient step(network.row.size());
    network.model->step_by(network.row, network.batch(7), noise, step);
    for (std::size_t i = HeadGradient::kHead; i < step.gradient.size(); ++i) {
      EXPECT_NEAR(step.gradient[i], all.gradient[i], 1e-6) << i;
    }
  }
}

TEST(FrozenGraph, ValuesAreThoseThatWereGiven) {
  Network network;
  const double loss = network.model->evaluate(network.row, network.batch(7)).loss;
  FrozenPart& part = *network.freeze({0, 0, 1, 1});
  OneBlock wrong(part, network.samples, 1);
  network.cuttable().take_frozen(wrong, part);
  EXPECT_GT(std::abs(network.model->evaluate(network.row, network.batch(7)).loss - loss), 0.01);
}

TEST(FrozenGraph, TheGradientOfWhatIsFrozenIsZero) {
  Network network;
  FrozenPart& part = *network.freeze({0, 0, 0, 1});
  OneBlock values(part, network.samples);
  const LossAndGradient all = loss_and_gradient(*network.model, network.row, network.batch(7));
  network.cuttable().take_frozen(values, part);
  const LossAndGradient rest = loss_and_gradient(*network.model, network.row, network.batch(7));
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(rest.gradient[i], 0) << i;
  for (std::size_t i = 40; i < 43; ++i) EXPECT_NEAR(rest.gradient[i], all.gradient[i], 1e-6) << i;
}

TEST(FrozenGraph, TheDigestIsThatOfFrozenTensorsAlone) {
  Network network;
  const FrozenPart* const part = network.freeze({0, 0, 1, 1});
  const std::string before = part->digest();
  network.row[26] += 1;
  EXPECT_EQ(part->digest(), before);
  network.row[3] += 1;
  EXPECT_NE(part->digest(), before);
}

}  // namespace
}  // namespace hanse
