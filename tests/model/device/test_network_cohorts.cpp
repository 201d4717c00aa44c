// Whole cohorts whose gradients are found by hand against those by autograd.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "drawn.hpp"
#include "hanse/model/torch_library.hpp"
#include "support/devices.hpp"

namespace hanse {
namespace {

struct CohortCase {
  ModelOptions model;
  std::vector<int64_t> shape = {1, 9, 10};
  int64_t classes = 3;
  Cohort::Settings settings = {.clients = 3, .batch = 4, .samples = 24};
};

struct Trained {
  at::Tensor rows;
  std::vector<double> losses;
};

constexpr int64_t kSteps = 5;

Trained train(const CohortCase& c, const std::string& device, bool by_hand) {
  Cohort::Settings settings = c.settings;
  settings.device = device;
  settings.by_hand = by_hand;
  const auto cohort = torch_library().make_cohort(c.model, c.shape, c.classes, settings);
  RandomStream stream(9, Purpose::kData);
  const at::Tensor features = draw(stream, {settings.samples, size_of(c.shape)}, 0);
  const at::Tensor targets = draw(stream, {settings.samples}, 0);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < settings.samples; ++i) {
    labels.push_back(static_cast<int32_t>(stream.below(std::max<int64_t>(c.classes, 1))));
  }
  cohort->put(0, {features.data_ptr<float>(), c.classes > 0 ? labels.data() : nullptr,
                  c.classes > 0 ? nullptr : targets.data_ptr<float>(), settings.samples});
  const auto model = make_model(c.model, c.shape, c.classes);
  std::vector<float> theta(static_cast<std::size_t>(model->n_params()));
  model->initialize(theta, stream);
  cohort->put_theta(theta);
  const std::vector<Cohort::NoiseKey> keys{{5, 1, 0}, {5, 1, 1}, {5, 1, 2}};
  cohort->start({.noise = keys});
  std::vector<int64_t> places, counts;
  std::vector<StepSize> sizes;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t client = 0; client < settings.clients; ++client) {
      counts.push_back((step + client * 2) % (settings.batch + 1));
      sizes.push_back({.rate = 0.1F, .scale = counts.back() > 0 ? 1.0F : 0.0F});
      for (int64_t b = 0; b < settings.batch; ++b) {
        places.push_back((7 * step + 5 * client + b) % settings.samples);
      }
    }
  }
  cohort->put_steps({places, counts, sizes});
  cohort->steps(0, kSteps, settings.clients);
  Trained trained{.rows = cohort->rows().cpu().clone(), .losses = std::vector<double>(3)};
  cohort->take_losses(trained.losses);
  return trained;
}

// Whether the two ways ended in other bits on the CPU. They may agree where sums are short.
bool expect_same_training(const CohortCase& c, const std::string& what) {
  bool differ = false;
  for (const std::string& device : test_devices()) {
    const Trained expected = train(c, device, false), got = train(c, device, true);
    const double scale = expected.rows.abs().max().item<double>();
    EXPECT_LE((got.rows - expected.rows).abs().max().item<double>(), 1e-5 * scale) << what;
    if (device == "cpu") differ = !got.rows.equal(expected.rows);
    for (std::size_t i = 0; i < got.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-5 * std::abs(expected.losses[i])) << what;
    }
  }
  return differ;
}

ModelOptions kind(const std::string& name, const std::string& loss = "cross-entropy",
                  bool bias = true) {
  return {.kind = name, .loss = loss, .hidden = {7, 5}, .bias = bias};
}

TEST(NetworkCohorts, TrainAsByAutograd) {
  bool differ = false;
  for (const char* name :
       {"linear", "mlp", "cnn-leaf", "cnn-cifar", "cnn-mcmahan", "cnn-byzfl", "lenet"}) {
    const std::string model = name;
    std::vector<int64_t> shape{2, 9, 8};
    if (model == "lenet") shape = {2, 12, 13};
    if (model == "cnn-byzfl") shape = {2, 16, 17};
    differ |= expect_same_training({.model = kind(name), .shape = shape}, name);
  }
  for (const char* name : {"linear", "mlp", "cnn-cifar"}) {  // long sums, and batches in parts
    expect_same_training({.model = kind(name), .shape = {3, 20, 21}}, name);
  }
  expect_same_training({.model = kind("linear", "cross-entropy", false)}, "linear without bias");
  expect_same_training({.model = kind("mlp", "binary-logistic"), .classes = 2}, "binary-logistic");
  expect_same_training({.model = kind("mlp", "squared-error"), .classes = 0}, "squared-error");
  EXPECT_TRUE(differ || test_devices().front() != "cpu") << "both by the same way";
}

TEST(NetworkCohorts, TrainAsByAutogradWithEveryOption) {
  CohortCase c{.model = kind("cnn-cifar"), .shape = {3, 8, 9}};
  c.settings.step = {.kind = StepRule::kMomentum,
                     .rule = {.weight_decay = 0.1F, .momentum = 0.9F, .nesterov = true}};
  c.settings.clip = 0.5;
  expect_same_training(c, "momentum, decay and clip");
  c.settings.slope = {.base = 2, .least = 0.1, .beyond = 10};
  expect_same_training(c, "slope");
}

}  // namespace
}  // namespace hanse
