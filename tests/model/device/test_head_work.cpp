// A network's head in two kernels against its layers one after the other, in float64.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "model/device/work.hpp"
#include "work_runs.hpp"

namespace hanse {
namespace {

struct Shape {
  int64_t batch, units, inputs;
  LossRule rule = LossRule::kCrossEntropy;
  bool bias = true, relu = true, mask = true, by_place = false;
  int64_t parts = 3;
  bool reads_samples = false;  // nobody wants their gradient

  bool has_delta() const { return !by_place && !reads_samples; }
};

std::size_t to_size(int64_t n) { return static_cast<std::size_t>(n); }
double wide(float x) { return static_cast<double>(x); }

// All memory of a step of four clients, of whom three act.
struct Head {
  static constexpr int64_t kClients = 4, kActing = 3;

  explicit Head(const Shape& of)
      : shape(of),
        stride(of.units * of.inputs + 5),
        counts{of.batch, 0, (of.batch + 1) / 2, of.batch},
        n(of.batch * of.inputs),
        found(drawn(kClients * of.parts * n, 2)),
        mask(drawn(kClients * n, 3)),
        below_bias(drawn(kClients * (of.inputs + 2), 4)),
        input(of.relu ? Row(to_size(kClients * n), 9) : drawn(kClients * n, 5)),
        weights(drawn(kClients * stride, 6)),
        bias(drawn(kClients * (of.units + 1), 7)),
        targets(drawn(kClients * of.batch, 8)),
        weight_gradient(weights.size(), 9),
        bias_gradient(bias.size(), 9),
        delta(input.size(), 9),
        below_gradient(below_bias.size(), 9) {
    for (float& w : weights) w *= 0.1F;
    const int64_t classes = of.rule == LossRule::kCrossEntropy ? of.units : 2;
    for (int64_t i = 0; i < kClients * of.batch; ++i) {
      places.push_back(kClients * of.batch - 1 - i);
      labels.push_back(static_cast<int32_t>(i * 7 % classes));
    }
  }

  HeadLayer layer() const {
    return {.batch = static_cast<int32_t>(shape.batch),
            .units = static_cast<int32_t>(shape.units),
            .inputs = static_cast<int32_t>(shape.inputs),
            .by_place = shape.by_place,
            .places = places.data(),
            .input = input.data(),
            .weights = weights.data(),
            .stride = stride};
  }

  LogitsWork logits_work() {
    logits.assign(to_size(kClients * layer().slices() * shape.batch * shape.units), 9);
    return {.layer = layer(),
            .slices = layer().slices(),
            .unit_tiles = LogitsWork::unit_tiles_of(shape.units),
            .has_relu = shape.relu,
            .below = {.batch = shape.batch,
                      .units = shape.inputs,
                      .parts = static_cast<int32_t>(shape.parts),
                      .found = found.data(),
                      .values = input.data(),
                      .mask = shape.mask ? mask.data() : nullptr,
                      .bias = shape.bias ? below_bias.data() : nullptr,
                      .bias_stride = shape.inputs + 2},
            .found = logits.data()};
  }

  HeadWork work() {
    const bool squared = shape.rule == LossRule::kSquaredError;
    return {.layer = layer(),
            .blocks_each = HeadWork::blocks_of(layer()),
            .loss = {.rule = shape.rule,
                     .batch = shape.batch,
                     .outputs = shape.units,
                     .counts = counts.data(),
                     .places = places.data(),
                     .labels = squared ? nullptr : labels.data(),
                     .targets = squared ? targets.data() : nullptr,
                     .bias = shape.bias ? bias.data() : nullptr,
                     .bias_gradient = shape.bias ? bias_gradient.data() : nullptr,
                     .bias_stride = shape.units + 1,
                     .parts = layer().slices(),
                     .found = logits.data(),
                     .logits = nullptr,
                     .means = means.data(),
                     .totals = totals.data(),
                     .squares = squares.data()},
            .weight_gradient = weight_gradient.data(),
            .input_delta = shape.has_delta() ? delta.data() : nullptr,
            .has_relu = shape.relu,
            .back = {.units = shape.inputs,
                     .batch = static_cast<int32_t>(shape.batch),
                     .values = input.data(),
                     .mask = shape.mask ? mask.data() : nullptr,
                     .delta = nullptr,
                     .bias_gradient = shape.bias ? below_gradient.data() : nullptr,
                     .bias_stride = shape.inputs + 2}};
  }

  // All that the kernels wrote.
  auto written() const {
    return std::tie(input, weight_gradient, bias_gradient, delta, below_gradient, means, totals,
                    squares);
  }

  int64_t place(int64_t client, int64_t b) const {
    const int64_t number = client * shape.batch + b;
    return shape.by_place ? places[to_size(number)] : number;
  }

  Shape shape;
  int64_t stride;
  std::vector<int64_t> counts;
  int64_t n;
  Row found, mask, below_bias, input, weights, bias, targets, logits;
  Row weight_gradient, bias_gradient, delta, below_gradient;
  std::vector<int64_t> places;
  std::vector<int32_t> labels;
  std::vector<double> means = {9, 9, 9, 9}, totals = {1, 2, 3, 4}, squares = {4, 3, 2, 1};
};

// The loss of a sample; logits become its gradient.
double loss_of(const Head& head, std::vector<double>& z, int64_t place) {
  const int32_t label = head.labels[to_size(place)];
  if (head.shape.rule == LossRule::kSquaredError) {
    z[0] -= wide(head.targets[to_size(place)]);
    return z[0] * z[0] / 2;
  }
  if (head.shape.rule == LossRule::kBinaryLogistic) {
    const double x = z[0], y = label == 1 ? 1 : 0;
    z[0] = 1 / (1 + std::exp(-x)) - y;
    return std::log1p(std::exp(x)) - y * x;
  }
  const double own = z[to_size(label)];
  double sum = 0;
  for (double& value : z) sum += value = std::exp(value);
  for (double& value : z) value /= sum;
  z[to_size(label)] -= 1;
  return std::log(sum) - own;
}

struct Errors {
  double most = 0;
  void add(float got, double expected) {
    const double error = std::abs(wide(got) - expected) / std::max(1.0, std::abs(expected));
    most = error <= most ? most : error;  // no number stays
  }
};

void add_units(const Head& head, int64_t client, Errors& errors) {
  const Shape& s = head.shape;
  for (int64_t i = 0; i < head.n; ++i) {
    double sum =
        s.bias ? wide(head.below_bias[to_size(client * (s.inputs + 2) + i % s.inputs)]) : 0;
    for (int64_t part = 0; part < s.parts; ++part) {
      sum += wide(head.found[to_size((client * s.parts + part) * head.n + i)]);
    }
    const auto at = to_size(client * head.n + i);
    errors.add(head.input[at], std::max(sum, 0.0) * (s.mask ? wide(head.mask[at]) : 1));
  }
}

// The gradients of a client against those at its input, as it is.
void add_client(const Head& head, int64_t client, Errors& errors) {
  const Shape& s = head.shape;
  const int64_t count = head.counts[to_size(client)];
  const float* w = head.weights.data() + client * head.stride;
  std::vector<double> weights(to_size(s.units * s.inputs)), bias(to_size(s.units));
  std::vector<double> below(to_size(s.inputs));
  double mean = 0, squared = 0;
  for (int64_t b = 0; b < s.batch; ++b) {
    const float* x = head.input.data() + head.place(client, b) * s.inputs;
    std::vector<double> z(bias.size());
    for (int64_t u = 0; u < s.units; ++u) {
      double& sum = z[to_size(u)] =
          s.bias ? wide(head.bias[to_size(client * (s.units + 1) + u)]) : 0;
      for (int64_t i = 0; i < s.inputs; ++i) sum += wide(x[i]) * wide(w[u * s.inputs + i]);
    }
    const double loss = loss_of(head, z, head.places[to_size(client * s.batch + b)]);
    if (b < count) {
      mean += loss / static_cast<double>(count);
      squared += loss * loss;
    }
    for (double& value : z) value = b < count ? value / static_cast<double>(count) : 0;
    for (int64_t i = 0; i < s.inputs; ++i) {
      double back = 0;
      for (int64_t u = 0; u < s.units; ++u) {
        back += z[to_size(u)] * wide(w[u * s.inputs + i]);
        weights[to_size(u * s.inputs + i)] += z[to_size(u)] * wide(x[i]);
      }
      const auto at = to_size((client * s.batch + b) * s.inputs + i);
      if (s.relu) back = x[i] <= 0 ? 0 : back * (s.mask ? wide(head.mask[at]) : 1);
      below[to_size(i)] += back;
      if (s.has_delta()) errors.add(head.delta[at], back);
    }
    for (int64_t u = 0; u < s.units; ++u) bias[to_size(u)] += z[to_size(u)];
  }
  for (int64_t i = 0; i < s.units * s.inputs; ++i) {
    errors.add(head.weight_gradient[to_size(client * head.stride + i)], weights[to_size(i)]);
  }
  for (int64_t u = 0; u < s.units && s.bias; ++u) {
    errors.add(head.bias_gradient[to_size(client * (s.units + 1) + u)], bias[to_size(u)]);
  }
  for (int64_t i = 0; i < s.inputs && s.bias && s.relu; ++i) {
    errors.add(head.below_gradient[to_size(client * (s.inputs + 2) + i)], below[to_size(i)]);
  }
  const auto own = to_size(client);
  EXPECT_NEAR(head.means[own], mean, 1e-5 * mean + 1e-12);
  EXPECT_EQ(head.totals[own], static_cast<double>(client + 1) + head.means[own]);
  EXPECT_NEAR(head.squares[own], static_cast<double>(4 - client) + squared, 1e-4 * squared + 1e-12);
}

void expect_layers(const Shape& shape) {
  ASSERT_TRUE(HeadLayer::fits(shape.batch, shape.units, shape.inputs));
  Head head(shape), forwards(shape);
  run_backwards(head.logits_work(), head.logits_work().blocks(Head::kActing));
  run_backwards(head.work(), head.work().blocks(Head::kActing));
  run_blocks(forwards.logits_work(), forwards.logits_work().blocks(Head::kActing));
  run_blocks(forwards.work(), forwards.work().blocks(Head::kActing));
  EXPECT_TRUE(head.written() == forwards.written());
  Errors errors;
  for (int64_t client = 0; client < Head::kActing; ++client) {
    if (shape.relu) add_units(head, client, errors);
    add_client(head, client, errors);
  }
  EXPECT_LE(errors.most, 2e-5) << shape.batch << " " << shape.units << " " << shape.inputs;
  const auto stays = [](const Row& row, int64_t each) {
    return std::all_of(row.begin() + Head::kActing * each, row.end(),
                       [](float x) { return x == 9; });
  };
  EXPECT_TRUE(stays(head.weight_gradient, head.stride) && stays(head.delta, head.n));
  EXPECT_TRUE(stays(head.bias_gradient, shape.units + 1));
  EXPECT_TRUE(stays(head.below_gradient, shape.inputs + 2));
  EXPECT_EQ(head.means.back(), 9);
  EXPECT_EQ(head.totals.back(), 4);
  EXPECT_EQ(head.squares.back(), 1);
}

TEST(HeadWork, IsItsLayersOneAfterTheOther) {
  for (const int64_t batch : {1, 3, 4, 10, 20, 32, 33, 64}) {
    for (const int64_t units : {1, 2, 10, 62, 64}) {
      for (const int64_t inputs : {1, 63, 64, 65, 784, 2048}) {
        if (HeadLayer::fits(batch, units, inputs)) expect_layers({batch, units, inputs});
      }
    }
  }
}

TEST(HeadWork, ReadsSamplesWhereTheyAre) {
  for (const int64_t batch : {1, 10, 33, 64}) {
    for (const int64_t units : {1, 10, 62}) {
      for (const int64_t inputs : {1, 65, 784}) {
        if (!HeadLayer::fits(batch, units, inputs)) continue;
        expect_layers(
            {.batch = batch, .units = units, .inputs = inputs, .relu = false, .by_place = true});
        expect_layers({.batch = batch,
                       .units = units,
                       .inputs = inputs,
                       .relu = false,
                       .reads_samples = true});
      }
    }
  }
}

TEST(HeadWork, HasAnyLossWithAndWithoutBiasAndLayerBelow) {
  for (const LossRule rule :
       {LossRule::kCrossEntropy, LossRule::kBinaryLogistic, LossRule::kSquaredError}) {
    const int64_t units = rule == LossRule::kCrossEntropy ? 7 : 1;
    for (const bool bias : {true, false}) {
      for (const bool mask : {true, false}) {
        expect_layers(
            {.batch = 9, .units = units, .inputs = 70, .rule = rule, .bias = bias, .mask = mask});
      }
      const Shape alone{
          .batch = 9, .units = units, .inputs = 70, .rule = rule, .bias = bias, .relu = false};
      expect_layers(alone);
      Shape by_place = alone;
      by_place.by_place = true;
      expect_layers(by_place);
    }
  }
}

TEST(HeadWork, AddsAnyNumberOfPartsOfTheLayerBelow) {
  for (const int64_t parts : {1, 2, 4, 5, 9}) {
    expect_layers({.batch = 5, .units = 3, .inputs = 90, .parts = parts});
  }
}

TEST(HeadWork, LeavesLargeLayersToOthers) {
  EXPECT_TRUE(HeadLayer::fits(10, 10, 784));
  EXPECT_TRUE(HeadLayer::fits(32, 64, 512));
  EXPECT_TRUE(HeadLayer::fits(64, 32, 512));
  EXPECT_FALSE(HeadLayer::fits(20, 62, 2048));
  EXPECT_FALSE(HeadLayer::fits(65, 1, 1));
  EXPECT_FALSE(HeadLayer::fits(1, 65, 1));
  EXPECT_FALSE(HeadLayer::fits(1, 1, 2049));
  EXPECT_FALSE(HeadLayer::fits(32, 65, 1));
  EXPECT_FALSE(HeadLayer::fits(33, 64, 1));
  EXPECT_FALSE(HeadLayer::fits(60, 33, 1));
}

}  // namespace
}  // namespace hanse
