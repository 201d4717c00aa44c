#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "hanse/client/gathered_batch.hpp"
#include "support/thread_communicator.hpp"
#include "support/updates.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

constexpr int64_t kClient = 1;

// Three clients with samples of four values in three classes, and a linear model.
struct Fixture {
  Fixture() : comm(make_single_communicator()), federation(load(*comm)) {
    model = make_model({.kind = "linear"}, federation.sample_shape(), federation.classes());
    RandomStream random(5, Purpose::kInitialize);
    theta.resize(static_cast<std::size_t>(model->n_params()));
    model->initialize(theta, random);
  }

  static Federation load(Communicator& host) {
    DataOptions data;
    data.kind = "random";
    data.shape = {4};
    data.classes = 3;
    FederationOptions options;
    options.clients = 3;
    options.samples = 20;
    return Federation::load(data, options, 9, host);
  }

  Row train(const ClientOptions& options, double* loss = nullptr) {
    Row row = theta;
    const ClientTask task{.client = kClient, .round = 2, .seed = 9, .row = row, .state = {}};
    const ClientOutcome outcome = sgd_or_prox(options, federation, *model)->train(task);
    if (loss) *loss = outcome.loss;
    return row;
  }

  // The client's whole training split as one batch, in the federation's order.
  double loss_and_gradient(const Row& row, Row& gradient) {
    const SampleRange range = federation.train(kClient);
    std::vector<float> features(
        static_cast<std::size_t>(range.size() * federation.sample_values()));
    federation.copy(range, features.data());
    const Batch batch = batch_of(federation, range, features.data());
    gradient.resize(row.size());
    RandomStream noise(0, Purpose::kDropout);
    return model->loss_and_gradient(row, batch, noise, gradient);
  }

  std::unique_ptr<Communicator> comm;
  Federation federation;
  std::unique_ptr<Model> model;
  Row theta;
};

// Full-batch steps, so that the order of the samples does not matter.
ClientOptions steps(int64_t count, const std::string& kind) {
  return {{.steps = count, .batch = 0}, {.lr = 0.3}, {.kind = kind}};
}

void expect_close(const Row& row, const Row& expected, double tolerance = 2e-6) {
  ASSERT_EQ(row.size(), expected.size());
  for (std::size_t i = 0; i < row.size(); ++i) ASSERT_NEAR(row[i], expected[i], tolerance) << i;
}

double change(const Row& a, const Row& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return largest;
}

TEST(Prox, WithoutWeightIsSgd) {
  Fixture f;
  ClientOptions sgd{{.epochs = 3, .batch = 5}, {.lr = 0.2, .weight_decay = 0.1}, {.kind = "sgd"}};
  ClientOptions prox = sgd;
  prox.kind = "prox";
  prox.mu = 0;
  expect_close(f.train(prox), f.train(sgd));
  sgd.clip = 1e30;  // never clips, and takes the same way through the code
  EXPECT_EQ(f.train(prox), f.train(sgd));
}

TEST(Prox, FirstStepIsNotPulled) {
  Fixture f;
  ClientOptions prox = steps(1, "prox");
  prox.mu = 50;
  ClientOptions sgd = steps(1, "sgd");
  sgd.clip = 1e30;
  EXPECT_EQ(f.train(prox), f.train(sgd));
}

// w <- w - lr (g(w) + wd w + mu (w - theta)), twice and three times.
TEST(Prox, PullsTowardsTheReceivedModel) {
  Fixture f;
  for (const int64_t count : {2, 3}) {
    ClientOptions options = steps(count, "prox");
    options.mu = 0.7;
    options.weight_decay = 0.05;
    Row w = f.theta;
    Row gradient;
    for (int64_t step = 0; step < count; ++step) {
      f.loss_and_gradient(w, gradient);
      for (std::size_t i = 0; i < w.size(); ++i) {
        w[i] -= 0.3F * (gradient[i] + 0.05F * w[i] + 0.7F * (w[i] - f.theta[i]));
      }
    }
    expect_close(f.train(options), w);
    options.mu = 0;
    EXPECT_GT(change(f.train(options), w), 1e-3);  // the pull is seen
  }
}

// A strong pull holds the client where it was; every participation pulls to what it received.
TEST(Prox, EachRoundHasItsOwnCentre) {
  Fixture f;
  ClientOptions options = steps(40, "prox");
  options.lr = 0.01;
  options.mu = 60;
  const auto update = make_sgd(options, f.federation, *f.model);
  Row away = f.theta;
  for (float& value : away) value += 10;
  for (const Row& received : {f.theta, away, f.theta}) {
    Row row = received;
    update->train({.client = kClient, .round = 1, .seed = 9, .row = row, .state = {}});
    EXPECT_LT(change(row, received), 0.05);
    EXPECT_GT(change(row, received), 0);
  }
}

TEST(Propfair, SlopeGrowsWithTheLossUpToItsTangent) {
  const PropfairOptions paper{.base = 3};
  EXPECT_DOUBLE_EQ(propfair_slope(paper, 0), 1.0 / 3);
  EXPECT_DOUBLE_EQ(propfair_slope(paper, 1), 0.5);
  EXPECT_DOUBLE_EQ(propfair_slope(paper, 2.5), 2);
  EXPECT_NEAR(propfair_slope(paper, 2.8), 5, 1e-9);  // 0.2 of room: the tangent begins
  EXPECT_DOUBLE_EQ(propfair_slope(paper, 2.9), 5);
  EXPECT_DOUBLE_EQ(propfair_slope(paper, 100), 5);
  const PropfairOptions reference{.base = 3, .reference = true};
  EXPECT_DOUBLE_EQ(propfair_slope(reference, 2.5), 2);
  EXPECT_DOUBLE_EQ(propfair_slope(reference, 2.9), 1.0 / 3);  // of F / M
  EXPECT_EQ(propfair_slope({}, 100), 1);
}

// One step moves by the slope times the plain gradient; decay is not part of the objective.
TEST(Propfair, ScalesTheGradient) {
  Fixture f;
  Row gradient;
  const double loss = f.loss_and_gradient(f.theta, gradient);
  for (const double base : {loss + 2, loss + 0.5, loss + 0.1}) {
    for (const bool reference : {false, true}) {
      ClientOptions options = steps(1, "sgd");
      options.weight_decay = 0.1;
      options.propfair = {.base = base, .reference = reference};
      const double room = base - loss;
      const double slope = room > 0.2 ? 1 / room : reference ? 1 / base : 5;
      Row expected = f.theta;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] -= 0.3F * (static_cast<float>(slope) * gradient[i] + 0.1F * f.theta[i]);
      }
      double reported = 0;
      expect_close(f.train(options, &reported), expected);
      EXPECT_NEAR(reported, loss, 1e-6);  // the loss itself, not its logarithm
    }
  }
}

// The slope is that of the loss at every step.
TEST(Propfair, FollowsTheLossOverTheSteps) {
  Fixture f;
  ClientOptions options = steps(4, "sgd");
  options.propfair.base = 1.6;
  Row w = f.theta;
  Row gradient;
  for (int step = 0; step < 4; ++step) {
    const auto slope =
        static_cast<float>(propfair_slope(options.propfair, f.loss_and_gradient(w, gradient)));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.3F * slope * gradient[i];
  }
  expect_close(f.train(options), w, 1e-5);
}

// client.clip bounds the gradient of what the client minimises.
TEST(Propfair, ClipsTheObjectivesGradient) {
  Fixture f;
  ClientOptions options = steps(1, "sgd");
  Row gradient;
  options.propfair.base = f.loss_and_gradient(f.theta, gradient) + 0.25;  // slope 4
  options.clip = 1e-3;
  double squared = 0;
  const Row moved = f.train(options);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    squared += std::pow(static_cast<double>(moved[i] - f.theta[i]), 2);
  }
  EXPECT_NEAR(std::sqrt(squared), 0.3 * 1e-3, 1e-6);
}

// Both together, as every aggregator may be combined with every update.
TEST(Propfair, CombinesWithProx) {
  Fixture f;
  ClientOptions options = steps(2, "prox");
  options.mu = 0.5;
  options.propfair.base = 3;
  Row w = f.theta;
  Row gradient;
  for (int step = 0; step < 2; ++step) {
    const auto slope =
        static_cast<float>(propfair_slope(options.propfair, f.loss_and_gradient(w, gradient)));
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i] -= 0.3F * (slope * gradient[i] + 0.5F * (w[i] - f.theta[i]));
    }
  }
  expect_close(f.train(options), w);
}

}  // namespace
}  // namespace hanse
