// FedSAM and its momentum form on quadratics, where everything can be followed by hand.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {
namespace {

const Row kTheta{1, -2, 0.5};

ClientOptions sam_options(double rho, double momentum) {
  ClientOptions options{{.steps = 5, .batch = 0},
                        {.lr = 0.05, .weight_decay = 0.1},
                        {.kind = "fedsam", .global_momentum = momentum}};
  options.second_order.rho = rho;
  return options;
}

// grad F(w + rho g / |g|)
Numbers sharp_gradient(const Regression& r, std::size_t client, const Numbers& w, double rho) {
  Numbers gradient;
  r.loss_and_gradient(client, w, gradient);
  double squared = 0;
  for (const double g : gradient) squared += g * g;
  Numbers above = w;
  for (std::size_t j = 0; j < w.size(); ++j) above[j] += rho * gradient[j] / std::sqrt(squared);
  r.loss_and_gradient(client, above, gradient);
  return gradient;
}

TEST(FedSam, WithoutARadiusIsSgdBitForBit) {
  const Regression r(random_clients());
  ClientOptions options = sam_options(0, 0);
  options.batch = 2;
  options.momentum = 0.5;
  const auto sgd = make_sgd(options, r.federation, *r.model);
  const auto sam = make_fedsam(options, r.federation, *r.model);
  EXPECT_EQ(sam->control_width(), 0);
  EXPECT_EQ(sam->state_width(), 0);
  EXPECT_TRUE(sam->trains_side_by_side());
  for (const int64_t client : {0, 1, 2}) {
    OneRound mine(*sam, kTheta), plain(kTheta);
    mine.train(*sam, client);
    plain.train(*sgd, client);
    EXPECT_EQ(mine.row, plain.row);
    EXPECT_EQ(mine.outcome.loss, plain.outcome.loss);
  }
}

TEST(FedSam, StepsByTheGradientAbove) {
  const Regression r(random_clients());
  const auto sam = make_fedsam(sam_options(0.3, 0), r.federation, *r.model);
  EXPECT_FALSE(sam->trains_side_by_side());
  for (std::size_t client = 0; client < 3; ++client) {
    OneRound mine(*sam, kTheta);
    mine.train(*sam, static_cast<int64_t>(client));
    Numbers w(kTheta.begin(), kTheta.end()), unused;
    double loss = 0;
    for (int step = 0; step < 5; ++step) {
      loss += r.loss_and_gradient(client, w, unused) / 5;
      const Numbers g = sharp_gradient(r, client, w, 0.3);
      for (std::size_t j = 0; j < 3; ++j) w[j] -= 0.05 * (g[j] + 0.1 * w[j]);
    }
    expect_close(mine.row, w, 1e-5);
    EXPECT_NEAR(mine.outcome.loss, loss, 1e-5);
  }
  expect_pure_function(*sam);
}

// Notes the first number of each gradient's noise, of which dropout makes its masks.
class Drawing final : public Model {
 public:
  Drawing() { layout_.add("w", {3}, 1); }
  double loss_and_gradient(std::span<const float> row, const Batch&, RandomStream& noise,
                           std::span<float> gradient) override {
    drawn.push_back(noise.uniform());
    std::ranges::copy(row, gradient.begin());
    return 0;
  }
  double sgd_step(std::span<float>, const Batch&, RandomStream&, double, double) override {
    return 0;
  }
  EvaluationSums evaluate(std::span<const float>, const Batch&, SampleResults) override {
    return {};
  }

  std::vector<double> drawn;
};

TEST(FedSam, DropsTheSameUnitsAbove) {
  const Regression r(random_clients());
  Drawing model;
  const auto sam = make_fedsam(sam_options(0.3, 0), r.federation, model);
  OneRound mine(*sam, kTheta);
  mine.train(*sam, 0);
  ASSERT_EQ(model.drawn.size(), 10);  // two a step
  for (std::size_t i = 0; i < 10; i += 2) {
    EXPECT_EQ(model.drawn[i], model.drawn[i + 1]);
    if (i > 0) {
      EXPECT_NE(model.drawn[i], model.drawn[i - 1]);
    }
  }
}

// Clipping acts on the gradient above, and momentum adds those up.
TEST(FedSam, GoesWithClippingAndMomentum) {
  const Regression r(random_clients());
  ClientOptions options = sam_options(0.3, 0);
  options.clip = 0.4;
  options.momentum = 0.9;
  const auto sam = make_fedsam(options, r.federation, *r.model);
  OneRound mine(*sam, kTheta);
  mine.train(*sam, 0);
  Numbers w(kTheta.begin(), kTheta.end()), v(3);
  for (int step = 0; step < 5; ++step) {
    const Numbers g = sharp_gradient(r, 0, w, 0.3);
    const double norm = std::sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);
    ASSERT_GT(norm, 0.4);
    for (std::size_t j = 0; j < 3; ++j) {
      v[j] = 0.9 * v[j] + 0.4 / norm * g[j] + 0.1 * w[j];
      w[j] -= 0.05 * v[j];
    }
  }
  expect_close(mine.row, w, 1e-5);
}

// MoFedSAM, and with rho = 0 FedCM: the direction is a share of each step, and what the client
// sends is its mean step over lr.
TEST(FedSam, AddsTheLastDirection) {
  const Regression r(random_clients());
  const double m = 0.7;
  const Numbers direction{0.3, -1, 2};
  for (const double rho : {0.0, 0.3}) {
    const auto sam = make_fedsam(sam_options(rho, m), r.federation, *r.model);
    EXPECT_EQ(sam->control_width(), 4);
    EXPECT_EQ(sam->control_block(), 4);
    EXPECT_FALSE(sam->trains_side_by_side());
    for (std::size_t client = 0; client < 3; ++client) {
      OneRound mine(*sam, kTheta);
      mine.control = {0.3F, -1, 2, 1};
      mine.train(*sam, static_cast<int64_t>(client));
      Numbers w(kTheta.begin(), kTheta.end()), g;
      for (int step = 0; step < 5; ++step) {
        r.loss_and_gradient(client, w, g);
        if (rho > 0) g = sharp_gradient(r, client, w, rho);
        for (std::size_t j = 0; j < 3; ++j) {
          w[j] -= 0.05 * ((1 - m) * g[j] + m * direction[j] + 0.1 * w[j]);
        }
      }
      expect_close(mine.row, w, 1e-5);
      for (std::size_t j = 0; j < 3; ++j) {
        EXPECT_NEAR(mine.change[j], (static_cast<double>(kTheta[j]) - w[j]) / (5 * 0.05), 1e-4);
      }
      EXPECT_EQ(mine.change[3], 1);
    }
    expect_pure_function(*sam);
  }
}

}  // namespace
}  // namespace hanse
