// Clients that train by DP-SGD: their draws, their clip and their division, against steps by hand.
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "client/support.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/rules/privacy/private_steps.hpp"

namespace hanse {
namespace {

ModelOptions regression_options() {
  ModelOptions options;
  options.kind = "linear";
  options.loss = "squared-error";
  return options;
}

struct PrivateClient {
  explicit PrivateClient(const std::vector<Samples>& samples)
      : federation(make_federation(*host, samples)),
        model(
            make_model(regression_options(), federation.sample_shape(), federation.label_form())) {
    options.lr = 0.1;
    options.steps = 3;
    options.batch = 2;
  }

  // Steps with noise z and clip C.
  void take_private_steps(double multiplier, double clip) {
    PrivacyOptions privacy;
    privacy.clip = clip;
    steps->noise = StepNoise::of(privacy, multiplier, model->n_params(), 100);
    options.private_steps = steps;
  }

  std::vector<float> trained(int64_t client, int64_t round = 1) {
    std::vector<float> row{0.5F, -0.25F, 0.125F};
    const auto update = make_sgd(options, federation, *model);
    update->train({.client = client, .round = round, .seed = 1, .row = row});
    return row;
  }

  std::unique_ptr<Communicator> host = make_single_communicator();
  Federation federation;
  std::unique_ptr<Model> model;
  ClientOptions options;
  std::shared_ptr<PrivateSteps> steps = std::make_shared<PrivateSteps>(
      PrivateSteps{.noise = {}, .secret = CipherKey::of_numbers(std::array<uint64_t, 1>{3})});
};

TEST(PrivateSteps, WithoutNoiseOnAllSamplesAreThoseOfSgd) {
  PrivateClient client(rivals({7, 4}));
  client.options.batch = 0;
  const auto plain = client.trained(1);
  client.take_private_steps(0, 1e4);
  const auto found = client.trained(1);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(found[i], plain[i], 1e-5);
  EXPECT_NE(found, (std::vector<float>{0.5F, -0.25F, 0.125F}));
}

// Squared error of w x + b, from the gradients of the samples that the words take.
TEST(PrivateSteps, ClipEachDrawnSampleAndDivideByTheExpectedBatch) {
  const std::vector<Samples> all = rivals({7, 5});
  PrivateClient client(all);
  client.take_private_steps(0, 0.75);
  const double clip = client.steps->noise.clip;
  const Samples& own = all[1];
  std::array<double, 3> w{0.5, -0.25, 0.125};
  CipherStream words = batch_words(client.steps->key_of(1, 4));
  std::vector<int32_t> taken;
  std::vector<std::size_t> sizes;
  for (int step = 0; step < 3; ++step) {
    draw_batch(words, 5, 2, taken);
    sizes.push_back(taken.size());
    std::array<double, 3> sum{};
    for (const int32_t at : taken) {
      const auto& x = own.x[static_cast<std::size_t>(at)];
      const double off = w[0] * x[0] + w[1] * x[1] + w[2] - own.y[static_cast<std::size_t>(at)];
      const std::array<double, 3> g{off * x[0], off * x[1], off};
      const double length = std::hypot(g[0], g[1], g[2]);
      const double scale = std::min(1.0, clip / length);
      for (std::size_t j = 0; j < 3; ++j) sum[j] += scale * g[j];
    }
    for (std::size_t j = 0; j < 3; ++j) w[j] -= 0.1 * sum[j] / 2;
  }
  const auto found = client.trained(1, 4);
  for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(found[j], w[j], 2e-6) << j;
  EXPECT_NE(sizes, (std::vector<std::size_t>{2, 2, 2}));  // the divisor is not what came
}

TEST(PrivateSteps, HaveNoiseOfTheirClientRoundAndStep) {
  PrivateClient client(rivals({7, 5}));
  client.take_private_steps(1, 1);
  EXPECT_EQ(client.trained(0), client.trained(0));
  EXPECT_NE(client.trained(0), client.trained(0, 2));
  const auto before = client.trained(0);
  client.steps->secret = client.steps->secret.derived(0);
  EXPECT_NE(client.trained(0), before);
  // The deviation of a step's noise on the mean: z C lr / batch, here over many steps of one client
  // whose gradients are clipped to nearly nothing.
  client.options.steps = 2000;
  client.options.lr = 1;
  client.take_private_steps(1e6, 1e-6);
  const auto found = client.trained(1);
  for (const float value : found) EXPECT_LT(std::abs(value), 5 * std::sqrt(2000) / 2);
  EXPECT_GT(std::hypot(found[0], found[1], found[2]), 1);
}

}  // namespace
}  // namespace hanse
