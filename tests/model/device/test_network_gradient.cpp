// The gradients of a cohort's networks by hand against LibTorch's autograd in float64, one client
// after the other, on the CPU as a device.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "drawn.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/model/torch_library.hpp"
#include "model/device/step_gradient.hpp"
#include "model/device/step_loss.hpp"

namespace hanse {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMark = 1234.5F;

struct Case {
  NetworkSpec spec;
  std::vector<int64_t> shape = {2, 6, 7};
  std::string loss = "cross-entropy";
  std::vector<int64_t> counts = {4, 0, 1, 3};  // samples of each client
  int64_t batch = 4;
  double step = 0;  // all values are multiples of it, so that sums are exact; 0: whatever they are
  int64_t classes = 3;
  int64_t outputs() const { return loss == "cross-entropy" ? classes : 1; }
  int64_t clients() const { return static_cast<int64_t>(counts.size()); }
};

std::vector<std::vector<int64_t>> shapes_of(const Case& c) {
  std::vector<std::vector<int64_t>> shapes;
  int64_t channels = c.shape[0];
  for (const ConvolutionStage& stage : c.spec.stages) {
    shapes.push_back({stage.channels, channels, stage.kernel, stage.kernel});
    shapes.push_back({stage.channels});
    channels = stage.channels;
  }
  int64_t width = c.spec.stages.empty() ? c.shape[0] * c.shape[1] * c.shape[2]
                                        : output_values(c.spec.stages, c.shape);
  std::vector<int64_t> units = c.spec.hidden;
  units.push_back(c.outputs());
  for (const int64_t n : units) {
    shapes.push_back({n, width});
    if (c.spec.bias) shapes.push_back({n});
    width = n;
  }
  return shapes;
}

std::vector<CohortForward::Dropout> dropouts_of(const Case& c) {
  std::vector<CohortForward::Dropout> dropouts;
  if (c.spec.feature_dropout > 0) {
    dropouts.push_back({output_values(c.spec.stages, c.shape), c.spec.feature_dropout});
  }
  for (const int64_t units : c.spec.hidden) {
    if (c.spec.hidden_dropout > 0) dropouts.push_back({units, c.spec.hidden_dropout});
  }
  return dropouts;
}

// Plain losses are LossWork's.
class NoOtherLoss final : public StepLoss {
  Found differentiate(const at::Tensor&, const ClientBatches&, const StepTotals&) override {
    throw Error("another loss is asked for");
  }
  void start(const at::Tensor&, std::span<const float>) override {}
};

// All that a step computes with, on the CPU. The samples stand in another order than their places.
class Step {
 public:
  explicit Step(const Case& c)
      : c_(c),
        table_(c.clients(), c.batch, std::ssize(dropouts_of(c)), at::kCPU),
        noise_(dropouts_of(c), 0, c.clients(), c.batch, at::TensorOptions(at::kFloat)) {
    RandomStream stream(3, Purpose::kData);
    const int64_t samples = c.clients() * c.batch;
    features_ = draw(stream, {samples, c.shape[0] * c.shape[1] * c.shape[2]}, c.step);
    targets_ = c.loss == "squared-error" ? draw(stream, {samples}, c.step)
                                         : at::empty({samples}, at::kInt);
    for (int64_t i = 0; i < samples && c.loss != "squared-error"; ++i) {
      targets_[i] = static_cast<int32_t>(stream.below(c.outputs() == 1 ? 2 : c.outputs()));
    }
    const auto shapes = shapes_of(c);
    for (const auto& shape : shapes) n_params_ += size_of(shape);
    rows_ = at::zeros({c.clients(), n_params_});
    gradient_ = at::full_like(rows_, kNan);
    for (int64_t client = 0; client < c.clients(); ++client) {
      rows_[client].copy_(draw(stream, {n_params_}, c.step) * (c.step > 0 ? 1 : 0.3));
    }
    put();
  }

  void put() {
    std::vector<int64_t> places(to_size(c_.clients() * c_.batch));
    std::iota(places.rbegin(), places.rend(), int64_t{0});
    std::vector<Cohort::NoiseKey> keys;
    for (uint64_t client = 0; client < c_.counts.size(); ++client) keys.push_back({7, 1, client});
    const std::vector<StepSize> sizes(c_.counts.size(), {.rate = 0.5F});
    noise_.start(keys);
    table_.put({places, c_.counts, sizes}, noise_.put_steps(c_.counts));
    table_.choose(0);
    noise_.draw(table_, c_.clients());
  }

  StepParts parts() {
    return {.table = table_,
            .noise = noise_,
            .loss = make_loss(c_.loss, c_.loss == "cross-entropy"     ? c_.classes
                                       : c_.loss == "binary-logistic" ? 2
                                                                      : 0),
            .step_loss = other_loss_,
            .clients = c_.clients(),
            .batch = c_.batch,
            .features = features_,
            .targets = targets_,
            .rows = tensors(rows_),
            .gradients = tensors(gradient_)};
  }

  at::Tensor find(int64_t n, const at::Tensor& totals = {}) {
    return make_network_gradient(parts(), c_.spec, c_.shape)
        ->find(n, {.losses = totals, .squares = {}});
  }
  at::Tensor find() { return find(c_.clients()); }

  // Mean loss, and the gradient [P], of a client.
  std::pair<double, at::Tensor> reference(int64_t client) const {
    const int64_t n = c_.counts[to_size(client)];
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& tensor : tensors(rows_)) {
      leaves.push_back(tensor[client].to(at::kDouble).requires_grad_());
    }
    const at::Tensor order = table_.places().narrow(0, client * c_.batch, n);
    const at::Tensor loss =
        mean_loss(logits(leaves, features_.index_select(0, order).to(at::kDouble), client), order);
    std::vector<at::Tensor> flat;
    for (const at::Tensor& g : torch::autograd::grad({loss}, leaves)) flat.push_back(g.flatten());
    return {loss.item<double>(), at::cat(flat)};
  }

  at::Tensor features_, targets_, rows_, gradient_;

 private:
  std::vector<at::Tensor> tensors(const at::Tensor& rows) const {
    std::vector<at::Tensor> found;
    int64_t offset = 0;
    for (std::vector<int64_t> shape : shapes_of(c_)) {
      const int64_t size = size_of(shape);
      shape.insert(shape.begin(), c_.clients());
      found.push_back(rows.narrow(1, offset, size).view(shape));
      offset += size;
    }
    return found;
  }

  at::Tensor logits(const std::vector<at::Tensor>& leaves, at::Tensor x, int64_t client) const {
    auto next = leaves.begin();
    auto mask = noise_.masks().begin();
    const auto dropped = [&](const at::Tensor& values, double share) {
      return share > 0 ? values * (*mask++)[client].narrow(0, 0, values.size(0)) : values;
    };
    if (!c_.spec.stages.empty()) {
      x = x.view({-1, c_.shape[0], c_.shape[1], c_.shape[2]});
      for (const ConvolutionStage& stage : c_.spec.stages) {
        x = at::conv2d(x, next[0], next[1], 1, stage.padding);
        if (stage.pool) x = at::max_pool2d(x, 2);
        x = at::relu(x);
        next += 2;
      }
      x = dropped(x.flatten(1), c_.spec.feature_dropout);
    }
    for (std::size_t layer = 0; layer <= c_.spec.hidden.size(); ++layer) {
      const at::Tensor& weight = *next++;
      x = at::linear(x, weight, c_.spec.bias ? *next++ : at::Tensor());
      if (layer < c_.spec.hidden.size()) x = dropped(at::relu(x), c_.spec.hidden_dropout);
    }
    return x;
  }

  at::Tensor mean_loss(const at::Tensor& z, const at::Tensor& order) const {
    const at::Tensor y = targets_.index_select(0, order);
    if (c_.loss == "cross-entropy") return at::cross_entropy_loss(z, y.to(at::kLong));
    if (c_.loss == "squared-error") return (z.flatten() - y.to(at::kDouble)).square().mean() / 2;
    return at::binary_cross_entropy_with_logits(z.flatten(), y.to(at::kDouble));
  }

  Case c_;
  StepTable table_;
  CohortNoise noise_;
  NoOtherLoss other_loss_;
  int64_t n_params_ = 0;
};

// Where a client is nearly sure, its gradient is the small difference of larger numbers: `least`.
void expect_reference(const Step& step, const Case& c, const at::Tensor& means,
                      const std::string& what, double least = 0) {
  for (int64_t client = 0; client < c.clients(); ++client) {
    const std::string who = what + ", client " + std::to_string(client);
    if (c.counts[to_size(client)] == 0) {
      EXPECT_EQ(means[client].item<double>(), 0) << who;
      continue;
    }
    const auto [loss, gradient] = step.reference(client);
    EXPECT_NEAR(means[client].item<double>(), loss, 1e-5 * std::abs(loss)) << who;
    const double scale = gradient.abs().max().item<double>();
    const at::Tensor error = (step.gradient_[client].to(at::kDouble) - gradient).abs().max();
    EXPECT_LE(error.item<double>(), 1e-5 * std::max(scale, least)) << who;
    EXPECT_GT(scale, 0) << who;
  }
}

void expect_reference(const Case& c, const std::string& what) {
  Step step(c);
  expect_reference(step, c, step.find(), what);
}

TEST(NetworkGradient, EqualsAutogradOfDenseLayers) {
  for (const char* loss : {"cross-entropy", "binary-logistic", "squared-error"}) {
    for (const bool bias : {true, false}) {
      const std::string what = loss + std::string(bias ? "" : " without bias");
      expect_reference({.spec = {.bias = bias}, .loss = loss}, what);
      expect_reference({.spec = {.hidden = {5}, .bias = bias}, .loss = loss}, what);
      expect_reference({.spec = {.hidden = {9, 5, 6}, .bias = bias}, .loss = loss}, what);
    }
  }
}

TEST(NetworkGradient, EqualsAutogradOfConvolutions) {
  for (int64_t side = 3; side <= 9; ++side) {
    for (int64_t channels = 1; channels <= 5; channels += side % 2 + 1) {
      for (int64_t padding = 0; padding <= 2; ++padding) {
        for (const bool pool : {false, true}) {
          const std::string what = std::to_string(channels) + " x " + std::to_string(side) +
                                   ", padding " + std::to_string(padding) +
                                   (pool ? ", pooled" : "");
          const ConvolutionStage stage{4, 3, padding, pool};
          if (output_side({stage}, side) < 1) continue;
          const std::vector<int64_t> shape{channels, side, side + channels % 2};
          expect_reference({.spec = {.stages = {stage}}, .shape = shape}, what);
          const std::vector<ConvolutionStage> two{stage, {3, 2, 1, !pool}};
          if (output_side(two, side) < 1) continue;
          expect_reference({.spec = {.stages = two, .hidden = {6}}, .shape = shape}, what + " two");
        }
      }
    }
  }
}

TEST(NetworkGradient, EqualsAutogradWithDropout) {
  for (const double feature : {0.0, 0.25}) {
    for (const double hidden : {0.0, 0.5}) {
      const NetworkSpec spec{.stages = {{3, 3, 0, false}, {4, 2, 1, true}},
                             .hidden = {8, 7},
                             .feature_dropout = feature,
                             .hidden_dropout = hidden};
      for (const int64_t classes : {3, 70}) {
        expect_reference({.spec = spec, .classes = classes},
                         "dropout " + std::to_string(feature) + " " + std::to_string(hidden));
      }
    }
  }
}

TEST(NetworkGradient, BatchesOfAnyLength) {
  const NetworkSpec spec{.stages = {{3, 3, 1, true}}, .hidden = {4}};
  expect_reference({.spec = spec, .counts = {1}, .batch = 1}, "one sample");
  expect_reference({.spec = spec, .counts = {0, 0, 1, 0}, .batch = 1}, "most of them rest");
  expect_reference({.spec = spec, .counts = {7, 1, 2, 3, 4, 5, 6, 0, 7}, .batch = 7},
                   "all lengths");
  expect_reference({.spec = spec, .counts = {0, 0}, .batch = 3}, "all of them rest");
}

TEST(NetworkGradient, EqualsAutogradAtAwkwardSizes) {
  for (const int64_t batch : {1, 7, 33}) {
    const std::vector<int64_t> counts{batch, 0, (batch + 1) / 2, batch};
    for (const int64_t classes : {2, 10, 62, 1000}) {
      expect_reference(
          {.spec = {.hidden = {5}}, .counts = counts, .batch = batch, .classes = classes},
          std::to_string(batch) + " samples, " + std::to_string(classes) + " classes");
    }
    for (const char* loss : {"binary-logistic", "squared-error"}) {
      expect_reference({.spec = {.hidden = {3}}, .loss = loss, .counts = counts, .batch = batch},
                       loss);
    }
  }
}

TEST(NetworkGradient, EqualsAutogradOfLongSums) {
  for (const int64_t batch : {1, 7, 33}) {
    const std::vector<int64_t> counts{batch, 0, (batch + 1) / 2};
    const std::vector<int64_t> shape{3, 20, 21};
    expect_reference({.spec = {.hidden = {150}, .hidden_dropout = 0.5},
                      .shape = shape,
                      .counts = counts,
                      .batch = batch},
                     "a head of several slices");
    for (const int64_t classes : {3, 70}) {
      expect_reference(
          {.spec = {}, .shape = shape, .counts = counts, .batch = batch, .classes = classes},
          "linear");
      expect_reference({.spec = {.hidden = {70, 5}, .hidden_dropout = 0.5},
                        .shape = shape,
                        .counts = counts,
                        .batch = batch,
                        .classes = classes},
                       "mlp");
    }
  }
}

// Batches in parts of any length: images of 7 x 8 pixels need three samples, of 13 x 12 one.
TEST(NetworkGradient, EqualsAutogradWhereBatchesAreCut) {
  for (const int64_t batch : {1, 6, 7, 33}) {
    const std::vector<int64_t> counts{batch, 0, (batch + 1) / 2};
    for (const int64_t channels : {1, 3}) {
      for (const int64_t side : {7, 12}) {
        const NetworkSpec spec{
            .stages = {{5, 3, 1, false}, {4, 3, 1, true}}, .hidden = {6}, .feature_dropout = 0.25};
        expect_reference(
            {.spec = spec, .shape = {channels, side + 1, side}, .counts = counts, .batch = batch},
            std::to_string(batch) + " samples of " + std::to_string(side));
      }
    }
  }
}

// Values of so few bits that all sums are exact: many windows are ties, and many sums zero.
TEST(NetworkGradient, EqualsAutogradWhereValuesAreEqual) {
  for (const bool pool : {false, true}) {
    const NetworkSpec spec{.stages = {{3, 2, 0, pool}, {3, 2, 1, true}}, .hidden = {5}};
    expect_reference({.spec = spec, .shape = {1, 9, 8}, .step = 1}, "ties");
    expect_reference({.spec = spec, .shape = {2, 7, 7}, .step = 2}, "more of them");
  }
}

// A later step's buffers hold what the one before has left.
TEST(NetworkGradient, NothingOfAnEarlierStepIsLeft) {
  const NetworkSpec spec{
      .stages = {{3, 3, 0, true}}, .hidden = {6}, .feature_dropout = 0.25, .hidden_dropout = 0.5};
  const Case c{.spec = spec, .counts = {4, 2, 0, 3}};
  Step step(c);
  const auto gradient = make_network_gradient(step.parts(), c.spec, c.shape);
  const at::Tensor rows = step.rows_.clone();
  step.rows_.fill_(kNan);
  EXPECT_TRUE(gradient->find(c.clients(), {})[0].isnan().item<bool>());
  step.rows_.copy_(rows);
  expect_reference(step, c, gradient->find(c.clients(), {}), "behind one that is no number");
}

// Neither what a client computes without samples, nor that of places behind its samples, counts.
TEST(NetworkGradient, WhatDoesNotCountIsNoNumberAndDoesNotLeak) {
  const Case c{.spec = {.stages = {{3, 3, 0, true}}, .hidden = {4}}};
  Step step(c);
  step.rows_[1].fill_(kNan);
  expect_reference(step, c, step.find(), "a client that rests");
  const Case line{.spec = {}, .shape = {1, 2, 2}};
  Step other(line);
  for (int64_t client = 0; client < line.clients(); ++client) {
    for (int64_t b = line.counts[to_size(client)]; b < line.batch; ++b) {
      other.features_[15 - (client * line.batch + b)].fill_(3e38);  // its logits overflow
    }
  }
  expect_reference(other, line, other.find(), "places that overflow");
}

TEST(NetworkGradient, FewerClientsHaveTheSameGradientsAndTheOthersStay) {
  const NetworkSpec convolutions{.stages = {{3, 3, 0, true}, {4, 2, 1, false}},
                                 .hidden = {6},
                                 .feature_dropout = 0.25,
                                 .hidden_dropout = 0.5};
  for (const NetworkSpec& spec : {NetworkSpec{}, NetworkSpec{.hidden = {7, 5}}, convolutions}) {
    Step step({.spec = spec, .shape = {2, 14, 13}});
    const at::Tensor losses = step.find().clone(), all = step.gradient_.clone();
    for (int64_t clients = 1; clients < 4; ++clients) {
      step.gradient_.fill_(kMark);
      const at::Tensor totals = at::full({4}, 2.0, at::kDouble);
      const at::Tensor own = step.find(clients, totals);
      EXPECT_TRUE(at::allclose(own, losses.narrow(0, 0, clients), 1e-6));
      EXPECT_TRUE(totals.narrow(0, 0, clients).equal(own + 2));
      EXPECT_TRUE(totals.narrow(0, clients, 4 - clients).eq(2).all().item<bool>());
      EXPECT_TRUE(
          at::allclose(step.gradient_.narrow(0, 0, clients), all.narrow(0, 0, clients), 1e-5, 1e-6))
          << clients;
      EXPECT_TRUE(step.gradient_.narrow(0, clients, 4 - clients).eq(kMark).all().item<bool>());
    }
  }
}

TEST(NetworkGradient, LossesStayExactFarOut) {
  for (const char* loss : {"cross-entropy", "binary-logistic"}) {
    const Case c{.spec = {}, .shape = {1, 2, 2}, .loss = loss};
    Step step(c);
    step.rows_.mul_(60);
    expect_reference(step, c, step.find(), loss, 1);
  }
}

TEST(NetworkGradient, WhatIsTooLargeToUnrollIsLeftToAutograd) {
  Case c{.spec = {.stages = {{1, 3, 1, false}}}, .shape = {1, 4, 4}};
  Step step(c);
  EXPECT_NE(make_network_gradient(step.parts(), c.spec, c.shape), nullptr);
  StepParts many = step.parts();
  many.batch = kMostColumns;
  EXPECT_EQ(make_network_gradient(many, c.spec, c.shape), nullptr);
}

}  // namespace
}  // namespace hanse
