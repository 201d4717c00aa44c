// DQN-Fed's client on quadratic losses: what it sends and at which rate, against full BFGS.
#include <cmath>
#include <utility>
#include <vector>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kLr = 0.05;

ClientOptions options_of(int64_t batch, int64_t steps, int64_t pairs) {
  ClientOptions options;
  options.batch = batch;
  options.steps = steps;
  options.pairs = pairs;
  options.lr = kLr;
  options.rate_limit = 0;
  options.gradient = SentGradient::kLast;
  return options;
}

VectorXd vector_of(const Row& row) {
  return Eigen::Map<const Eigen::VectorXf>(row.data(), static_cast<Index>(row.size()))
      .cast<double>();
}

// A client's rounds, the slow way: every gradient in double, the whole matrix B.
class Slow {
 public:
  Slow(const Regression& problem, std::size_t client, std::size_t pairs)
      : problem_(problem), client_(client), most_(pairs) {}

  struct Told {
    VectorXd gradient;
    double rate;
  };

  Told participate(VectorXd w, int steps, bool mean = false) {
    if (static_cast<std::size_t>(steps) >= most_) {  // the round's own pairs alone
      s_.clear();
      y_.clear();
    }
    const VectorXd received = w;
    VectorXd sum = VectorXd::Zero(w.size());
    VectorXd g;
    for (int e = 0; e < steps; ++e) {
      g = gradient(w);
      sum += g;
      if (before_.size() > 0) add_pair(w - before_, g - gradient(before_));
      before_ = w;
      if (e + 1 < steps) w -= kLr * g;
    }
    before_ = received;
    const VectorXd told = mean ? VectorXd(sum / steps) : g;
    return {told, rate(told)};
  }

  std::size_t pairs() const { return s_.size(); }

 private:
  VectorXd gradient(const VectorXd& w) const {
    Numbers g;
    problem_.loss_and_gradient(client_, Numbers(w.begin(), w.end()), g);
    return Eigen::Map<const VectorXd>(g.data(), w.size());
  }

  void add_pair(const VectorXd& s, const VectorXd& y) {
    if (s.dot(y) <= 1e-8 * s.norm() * y.norm()) return;
    s_.push_back(s);
    y_.push_back(y);
    if (s_.size() > most_) {
      s_.erase(s_.begin());
      y_.erase(y_.begin());
    }
  }

  double rate(const VectorXd& g) const {
    if (s_.empty()) return kLr * g.squaredNorm();
    const Index n = g.size();
    const MatrixXd one = MatrixXd::Identity(n, n);
    MatrixXd b = one * s_.back().dot(y_.back()) / y_.back().squaredNorm();
    for (std::size_t i = 0; i < s_.size(); ++i) {
      const double rho = 1 / s_[i].dot(y_[i]);
      const MatrixXd v = one - rho * y_[i] * s_[i].transpose();
      b = v.transpose() * b * v + rho * s_[i] * s_[i].transpose();
    }
    return g.dot(b * g);
  }

  const Regression& problem_;
  std::size_t client_;
  std::size_t most_;
  VectorXd before_;
  std::vector<VectorXd> s_, y_;
};

struct Client {
  Client(Regression& problem, const ClientOptions& options)
      : update(make_quasi_newton(options, problem.federation, *problem.model)),
        state(static_cast<std::size_t>(update->state_width())) {}

  ClientOutcome participate(int64_t client, Row& row, int64_t round) {
    return update->train({.client = client, .round = round, .seed = 9, .row = row, .state = state});
  }

  std::unique_ptr<LocalUpdate> update;
  Row state;
};

// Models that the server might send, round after round.
Row model_of_round(int round) {
  RandomStream random(5, Purpose::kData, static_cast<uint64_t>(round));
  Row row(3);
  for (float& x : row) x = static_cast<float>(random.normal());
  return row;
}

// batch: 0 takes the stored gradient of the last model, 100 (all samples too) makes it anew.
TEST(QuasiNewton, SendsTheGradientAndItsRate) {
  Regression problem(random_clients());
  for (const int64_t batch : {0, 100}) {
    for (const int steps : {1, 2, 5}) {
      for (const std::size_t pairs : {1U, 2U, 3U, 8U}) {
        Client fast(problem, options_of(batch, steps, static_cast<int64_t>(pairs)));
        Slow slow(problem, 2, pairs);
        EXPECT_TRUE(fast.update->sends_direction());
        for (int round = 1; round <= 7; ++round) {
          Row row = model_of_round(round);
          const auto told = slow.participate(vector_of(row), steps);
          const ClientOutcome outcome = fast.participate(2, row, round);
          EXPECT_LT((vector_of(row) + told.gradient).norm(), 1e-5 * told.gradient.norm());
          EXPECT_NEAR(outcome.rate, told.rate, 1e-3 * told.rate)
              << "batch " << batch << ", steps " << steps << ", pairs " << pairs << ", round "
              << round;
          EXPECT_EQ(outcome.samples, 8 * steps);
        }
        EXPECT_EQ(slow.pairs(), pairs < 7 ? pairs : slow.pairs());
      }
    }
  }
}

// Also where a round's pairs live in memory that clients share.
TEST(QuasiNewton, ClientsDoNotMeet) {
  Regression problem(random_clients());
  for (const int steps : {1, 2, 3}) {
    Client fast(problem, options_of(0, steps, 2));
    std::vector<Slow> slow;
    std::vector<Row> states;
    for (std::size_t client = 0; client < 3; ++client) {
      slow.emplace_back(problem, client, 2);
      states.push_back(fast.state);
    }
    for (int round = 1; round <= 4; ++round) {
      for (const int64_t client : {0, 1, 2}) {
        const auto i = static_cast<std::size_t>(client);
        Row row = model_of_round(3 * round + static_cast<int>(client));
        const auto told = slow[i].participate(vector_of(row), steps);
        fast.state.swap(states[i]);
        const ClientOutcome outcome = fast.participate(client, row, round);
        fast.state.swap(states[i]);
        EXPECT_NEAR(outcome.rate, told.rate, 1e-3 * told.rate) << steps << " steps";
      }
    }
  }
}

// The last model of P = 3 values in a line of 16, its gradient with full batches, the pairs where a
// round makes fewer than m = 3, and a flag.
TEST(QuasiNewton, KeepsWhatLaterRoundsUse) {
  Regression problem(random_clients());
  const auto width = [&](int64_t batch, int64_t steps) {
    return make_quasi_newton(options_of(batch, steps, 3), problem.federation, *problem.model)
        ->state_width();
  };
  EXPECT_GE(width(4, 2), 16 + 2 * 5 * 16 + 1);
  EXPECT_EQ(width(4, 3), 16 + 1);
  EXPECT_EQ(width(0, 3), 16 + 16 + 1);
  EXPECT_EQ(width(4, 4), 0);
  EXPECT_EQ(width(0, 4), 0);
}

// The update is lr times the sum, and its rate is quadratic in it.
TEST(QuasiNewton, MeanOfTheGradientsAndUpdate) {
  Regression problem(random_clients());
  constexpr int kSteps = 4;
  for (const auto& [told_as, scale] :
       {std::pair{SentGradient::kMean, 1.0}, {SentGradient::kUpdate, kLr * kSteps}}) {
    ClientOptions options = options_of(0, kSteps, 3);
    options.gradient = told_as;
    Client fast(problem, options);
    Slow slow(problem, 0, 3);
    for (int round = 1; round <= 3; ++round) {
      Row row = model_of_round(round);
      const auto told = slow.participate(vector_of(row), kSteps, true);
      const ClientOutcome outcome = fast.participate(0, row, round);
      const VectorXd expected = scale * told.gradient;
      EXPECT_LT((vector_of(row) + expected).norm(), 1e-5 * expected.norm()) << name_of(told_as);
      EXPECT_NEAR(outcome.rate, scale * scale * told.rate, 1e-3 * outcome.rate) << name_of(told_as);
    }
  }
}

// The update where some client makes more than one step, else the gradient: all send the same.
TEST(QuasiNewton, WhatIsSentUnlessAJobSays) {
  Regression problem(random_clients());
  const auto sent = [&](int steps, SentGradient what) {
    ClientOptions options = options_of(0, steps, 3);
    options.gradient = what;
    Client client(problem, options);
    Row row = model_of_round(1);
    client.participate(0, row, 1);
    return row;
  };
  EXPECT_EQ(ClientOptions().gradient, SentGradient::kAuto);
  EXPECT_EQ(sent(1, SentGradient::kAuto), sent(1, SentGradient::kLast));
  EXPECT_EQ(sent(3, SentGradient::kAuto), sent(3, SentGradient::kUpdate));
  EXPECT_NE(sent(3, SentGradient::kAuto), sent(3, SentGradient::kLast));
}

TEST(QuasiNewton, FirstParticipationAndRateOfAGradientStep) {
  Regression problem(random_clients());
  ClientOptions options = options_of(0, 1, 4);
  for (const LoweringRate rate : {LoweringRate::kLbfgs, LoweringRate::kGradient}) {
    options.rate = rate;
    Client client(problem, options);
    Row row = model_of_round(1);
    const ClientOutcome outcome = client.participate(0, row, 1);
    EXPECT_NEAR(outcome.rate, kLr * vector_of(row).squaredNorm(), 1e-6 * outcome.rate)
        << name_of(rate);
  }
  options.rate = LoweringRate::kGradient;
  EXPECT_EQ(make_quasi_newton(options, problem.federation, *problem.model)->state_width(), 0);
}

TEST(QuasiNewton, RateOfAdaFedIsAPowerOfTheLoss) {
  Regression problem(random_clients());
  ClientOptions options = options_of(0, 2, 4);
  options.rate = LoweringRate::kLoss;
  EXPECT_EQ(make_quasi_newton(options, problem.federation, *problem.model)->state_width(), 0);
  for (const double power : {0.0, 0.5, 1.0, 5.0}) {
    options.rate_power = power;
    Client client(problem, options);
    Row row = model_of_round(1);
    const ClientOutcome outcome = client.participate(0, row, 1);
    EXPECT_EQ(outcome.rate, std::pow(outcome.loss, power)) << power;
  }
}

// The same model twice has no pair to give, and a limit bounds what is claimed.
TEST(QuasiNewton, PairsWithoutCurvatureAndTheLimit) {
  Regression problem(random_clients());
  ClientOptions options = options_of(0, 1, 4);
  Client client(problem, options);
  const Row same = model_of_round(1);
  for (int round = 1; round <= 3; ++round) {
    Row row = same;
    const ClientOutcome outcome = client.participate(1, row, round);
    EXPECT_NEAR(outcome.rate, kLr * vector_of(row).squaredNorm(), 1e-6 * outcome.rate) << round;
  }
  options.rate_limit = 1e-3;
  Client limited(problem, options);
  Row row = same;
  const ClientOutcome outcome = limited.participate(1, row, 1);
  EXPECT_EQ(outcome.rate, 1e-3 * outcome.loss);
}

// A pair without curvature leaves the others as they are, also when the memory is full, and also
// the one that follows it in the same round.
TEST(QuasiNewton, ASkippedPairCostsNoOther) {
  Regression problem(random_clients());
  for (const std::size_t pairs : {1U, 2U, 3U}) {
    for (const int steps : {1, 2}) {
      Client fast(problem, options_of(0, steps, static_cast<int64_t>(pairs)));
      Slow slow(problem, 2, pairs);
      for (const int model : {1, 2, 3, 4, 4, 4, 5, 5}) {
        Row row = model_of_round(model);
        const auto told = slow.participate(vector_of(row), steps);
        const ClientOutcome outcome = fast.participate(2, row, model);
        EXPECT_NEAR(outcome.rate, told.rate, 1e-3 * told.rate)
            << pairs << " pairs, " << steps << " steps, model " << model;
      }
    }
  }
}

}  // namespace
}  // namespace hanse
