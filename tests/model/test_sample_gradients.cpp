// Clipped sums of the samples' gradients: closed forms and passes of a sample against gradients of
// each sample alone, and how far a sample moves the sum.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/sample_gradients.hpp"
#include "support.hpp"

namespace hanse {
namespace {

struct Network {
  std::string kind;
  std::vector<int64_t> shape, hidden;
  int64_t classes, rows;
  std::string loss = "cross-entropy";
};

// Batches of one, odd ones, and more rows than a tile takes; widths that fill no vector.
const std::vector<Network>& networks() {
  static const std::vector<Network> all = {
      {"linear", {784}, {}, 10, 20},
      {"linear", {37}, {}, 3, 257},
      {"linear", {5}, {}, 2, 1, "binary-logistic"},
      {"linear", {19}, {}, 0, 7, "squared-error"},
      {"mlp", {784}, {200}, 10, 20},
      {"mlp", {19}, {33, 17, 5}, 7, 13},
      {"mlp", {777}, {301, 40}, 11, 65},
      {"mlp", {3}, {9}, 2, 2},
      {"lenet", {1, 28, 28}, {}, 10, 5},
      {"lenet", {3, 32, 32}, {}, 10, 3},
      {"cnn-cifar", {3, 32, 32}, {}, 10, 3},
      {"cnn-leaf", {1, 28, 28}, {}, 62, 2},
      {"cnn-mcmahan", {1, 28, 28}, {}, 10, 3},
      {"resnet18", {1, 12, 12}, {}, 3, 3},
      {"lstm", {12}, {}, 3, 3},
  };
  return all;
}

std::unique_ptr<Model> make(const Network& of, const LabelForm& labels) {
  ModelOptions options = model_options(of.kind, of.loss, of.hidden);
  options.vocabulary = 11;
  options.embedding = 6;
  options.units = 5;
  if (of.kind == "resnet18") options.channels = 4;
  return make_model(options, of.shape, labels);
}

int64_t size_of_sample(const Network& of) {
  int64_t size = 1;
  for (const int64_t extent : of.shape) size *= extent;
  return size;
}

double length_of(std::span<const double> row) {
  double squares = 0;
  for (const double value : row) squares += value * value;
  return std::sqrt(squares);
}

struct Case {
  explicit Case(const Network& network)
      : of(network),
        labels(network.classes),
        model(make(network, labels)),
        samples(network.shape, labels, network.rows, 3, network.kind == "lstm" ? 11 : 0),
        row(initial_row(*model)) {}

  std::vector<double> clipped(double clip, double* loss = nullptr) {
    std::vector<double> sum(row.size(), std::numeric_limits<double>::quiet_NaN());
    RandomStream noise = noise_stream();
    const double found =
        model->clipped_gradient(row, samples.batch(), {size_of_sample(of)}, noise, clip, sum);
    if (loss != nullptr) *loss = found;
    return sum;
  }

  // The gradient of each sample alone.
  std::vector<std::vector<float>> gradients() {
    std::vector<std::vector<float>> all;
    for (int64_t i = 0; i < of.rows; ++i) {
      Batch one = samples.batch();
      one.rows = 1;
      one.features += i * size_of_sample(of);
      if (one.labels != nullptr) one.labels += i;
      if (one.targets != nullptr) one.targets += i;
      all.push_back(loss_and_gradient(*model, row, one).gradient);
    }
    return all;
  }

  float* sample(int64_t i) { return samples.features.data() + i * size_of_sample(of); }

  Network of;
  LabelForm labels;
  std::unique_ptr<Model> model;
  Samples samples;
  std::vector<float> row;
};

std::vector<double> slow_sum(const std::vector<std::vector<float>>& gradients, double clip) {
  std::vector<double> sum(gradients.front().size());
  for (const auto& gradient : gradients) {
    const double length = length_of(std::vector<double>(gradient.begin(), gradient.end()));
    const double scale = length > clip ? clip / length : 1;
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += scale * gradient[j];
  }
  return sum;
}

TEST(SampleGradients, EqualThoseOfEachSampleAlone) {
  for (const Network& network : networks()) {
    if (network.kind == "cnn-cifar") continue;  // whose dropout a batch draws in another order
    SCOPED_TRACE(network.kind + " B=" + std::to_string(network.rows));
    Case c(network);
    const auto gradients = c.gradients();
    std::vector<double> lengths;
    for (const auto& gradient : gradients) {
      lengths.push_back(length_of(std::vector<double>(gradient.begin(), gradient.end())));
    }
    std::ranges::sort(lengths);
    // None is clipped, about half, all.
    for (const double clip : {2 * lengths.back(), lengths[lengths.size() / 2], lengths[0] / 3}) {
      const auto sum = c.clipped(clip), expected = slow_sum(gradients, clip);
      ASSERT_EQ(sum.size(), expected.size());
      std::vector<double> off(sum.size());
      for (std::size_t j = 0; j < sum.size(); ++j) off[j] = sum[j] - expected[j];
      EXPECT_LT(length_of(off), 1e-6 * std::max(length_of(expected), clip)) << clip;
    }
    double loss = 0;
    c.clipped(1, &loss);
    EXPECT_NEAR(loss, loss_and_gradient(*c.model, c.row, c.samples.batch()).loss,
                1e-6 * std::max(1.0, loss));
  }
}

// Neighbours: a sample with a huge gradient, or with none. The others do not move with it.
TEST(SampleGradients, ASampleMovesTheSumByTheClipAtMost) {
  for (const Network& network : networks()) {
    if (network.kind == "lstm" || network.rows < 2) continue;  // tokens have no size
    SCOPED_TRACE(network.kind + " B=" + std::to_string(network.rows));
    for (const double clip : {1e-3, 1.0}) {
      Case c(network);
      const int64_t place = network.rows / 2;
      std::fill_n(c.sample(place), size_of_sample(network), 300.0F);
      const auto with = c.clipped(clip);
      std::fill_n(c.sample(place), size_of_sample(network),
                  std::numeric_limits<float>::quiet_NaN());
      const auto without = c.clipped(clip);
      std::vector<double> moved(with.size());
      for (std::size_t j = 0; j < with.size(); ++j) moved[j] = with[j] - without[j];
      EXPECT_LE(length_of(moved), clip * (1 + 0x1p-21));
      EXPECT_GT(length_of(moved), 0);
    }
  }
}

TEST(SampleGradients, OfNobodyAreZero) {
  for (const Network& network : networks()) {
    Case c(network);
    c.samples.rows = 0;
    EXPECT_EQ(length_of(c.clipped(1)), 0) << network.kind;
  }
}

TEST(SampleGradients, AreAtMostAsLongAsTheClip) {
  EXPECT_EQ(clip_scale(4, 3), 1);
  EXPECT_LT(clip_scale(4, 1), 0.5);
  EXPECT_GT(clip_scale(4, 1), 0.5 * (1 - 1e-6));
  EXPECT_EQ(clip_scale(std::numeric_limits<double>::infinity(), 1), 0);
  EXPECT_EQ(clip_scale(std::numeric_limits<double>::quiet_NaN(), 1), 0);
}

}  // namespace
}  // namespace hanse
