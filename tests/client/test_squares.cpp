// The squared losses of the samples that a client trains: exact, and without a trace in the model.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {
namespace {

// The squared losses of each sample of a client at a linear regression's row.
double sum_of_squares(const Samples& samples, const Row& row) {
  double sum = 0;
  for (std::size_t i = 0; i < samples.y.size(); ++i) {
    double error = -static_cast<double>(samples.y[i]);
    for (std::size_t j = 0; j < row.size(); ++j) {
      error += static_cast<double>(row[j]) * static_cast<double>(samples.x[i][j]);
    }
    sum += error * error / 2 * error * error / 2;
  }
  return sum;
}

struct Trained {
  Row row;
  ClientOutcome outcome;
};

Trained train(LocalUpdate& update, std::size_t width, bool squares) {
  Trained trained{Row(width, 0.3F), {}};
  std::vector<float> state(static_cast<std::size_t>(update.state_width()));
  std::vector<float> change(static_cast<std::size_t>(update.control_width())), control(change);
  trained.outcome = update.train({.client = 2,
                                  .round = 3,
                                  .seed = 9,
                                  .row = trained.row,
                                  .state = state,
                                  .control = control,
                                  .control_change = change,
                                  .squares = squares});
  return trained;
}

TEST(Squares, AreThoseOfTheSamplesTrained) {
  Regression r(random_clients());
  const auto update = make_sgd({{.steps = 1, .batch = 0}}, r.federation, *r.model);
  EXPECT_TRUE(update->finds_squares());
  const Trained one = train(*update, 3, true);
  EXPECT_NEAR(one.outcome.squares, sum_of_squares(r.clients[2], Row(3, 0.3F)), 1e-4);
  // A step that does not move: each epoch adds the same.
  ClientOptions options{{.epochs = 2, .batch = 3}};
  options.lr = 1e-30;
  const auto still = make_sgd(options, r.federation, *r.model);
  const Trained two = train(*still, 3, true);
  EXPECT_EQ(two.outcome.samples, 16);
  EXPECT_NEAR(two.outcome.squares, 2 * one.outcome.squares, 1e-4);
}

TEST(Squares, CostNobodyABit) {
  Regression r(random_clients());
  std::vector<ClientOptions> cases(4, ClientOptions{{.epochs = 2, .batch = 3}});
  cases[1].clip = 0.5;
  cases[2].accumulate = 2;
  cases[3].momentum = 0.9;
  for (const ClientOptions& options : cases) {
    std::vector<std::unique_ptr<LocalUpdate>> updates;
    updates.push_back(make_sgd(options, r.federation, *r.model));
    updates.push_back(make_prox(options, r.federation, *r.model));
    updates.push_back(make_scaffold(options, r.federation, *r.model));
    for (const auto& update : updates) {
      const Trained with = train(*update, 3, true), without = train(*update, 3, false);
      EXPECT_EQ(with.row, without.row);
      EXPECT_EQ(with.outcome.loss, without.outcome.loss);
      EXPECT_EQ(without.outcome.squares, 0);
      const double mean = with.outcome.loss * with.outcome.loss;
      EXPECT_GT(with.outcome.squares, mean * static_cast<double>(with.outcome.samples) / 2);
    }
  }
}

// Gradients at other models leave those of the row that is trained.
TEST(Squares, OfSeveralGradientsAreThoseOfTheRow) {
  Regression r(random_clients());
  ClientOptions options{{.steps = 1, .batch = 0}, {.lr = 0.1}, {.mu = 2, .inner = 3}};
  options.second_order.rho = 0.5;
  for (const auto make : {make_fedsam, make_pfedme, make_apfl}) {
    const auto update = make(options, r.federation, *r.model);
    EXPECT_TRUE(update->finds_squares());
    EXPECT_NEAR(train(*update, 3, true).outcome.squares, sum_of_squares(r.clients[2], Row(3, 0.3F)),
                1e-4);
  }
}

// A step of L-BFGS takes a second gradient of its batch.
TEST(Squares, OfQuasiNewtonStepsAreThoseOfItsRow) {
  Regression r(random_clients());
  const auto update = make_quasi_newton({{.steps = 1, .batch = 0}}, r.federation, *r.model);
  EXPECT_TRUE(update->finds_squares());
  EXPECT_NEAR(train(*update, 3, true).outcome.squares, sum_of_squares(r.clients[2], Row(3, 0.3F)),
              1e-4);
}

// The labels of both samples count in the loss of a mixture.
TEST(Squares, OfMixturesShareTheirLosses) {
  const auto model = make_model({.kind = "linear"}, {2}, 3);
  const std::vector<float> row{1, 2, 0, -1, 3, 0.5F, 0.1F, 0, -0.2F};
  const std::vector<float> features{1, -1, 0.5F, 2, -2, 1};
  const std::vector<int32_t> labels{0, 1, 2}, others{1, 2, 0};
  const MixedLabels mixed{.labels = others.data(), .share = 0.3};
  std::vector<double> losses(3);
  const Batch batch{.features = features.data(),
                    .labels = labels.data(),
                    .rows = 3,
                    .mixed = &mixed,
                    .sample_losses = losses.data()};
  RandomStream noise(1, Purpose::kDropout);
  std::vector<float> gradient(row.size());
  const double mean = model->loss_and_gradient(row, batch, noise, gradient);
  EXPECT_NEAR((losses[0] + losses[1] + losses[2]) / 3, mean, 1e-6);
  EXPECT_GT(std::abs(losses[0] - losses[1]), 0.1);
}

}  // namespace
}  // namespace hanse
