// SCAFFOLD on clients with quadratic losses, where everything can be followed by hand.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {
namespace {

// Full-batch steps, so that the order of the samples does not matter.
ClientOptions scaffold_steps(int64_t count, double lr) {
  return {{.steps = count, .batch = 0}, {.lr = lr}, {.kind = "scaffold"}};
}

TEST(Scaffold, KeepsAndSendsOneRow) {
  const Regression r(random_clients());
  const auto scaffold = make_scaffold(scaffold_steps(1, 0.1), r.federation, *r.model);
  EXPECT_EQ(scaffold->state_width(), 3);
  EXPECT_EQ(scaffold->control_width(), 3);
  const auto sgd = make_sgd({}, r.federation, *r.model);
  EXPECT_EQ(sgd->state_width(), 0);
  EXPECT_EQ(sgd->control_width(), 0);
}

// With c = c_i = 0 the mini-batches, the steps and the loss are those of SGD; of the client of five
// samples these are 2 x 3 batches, the last one of a pass smaller.
TEST(Scaffold, FirstRoundIsSgd) {
  const Regression r(random_clients());
  ClientOptions options{
      {.epochs = 2, .batch = 2}, {.lr = 0.05, .weight_decay = 0.3}, {.kind = "scaffold"}};
  const Row theta{1, -2, 0.5};
  OneRound mine(theta);
  mine.train(*make_scaffold(options, r.federation, *r.model), 0);
  options.kind = "sgd";
  OneRound plain(theta);
  plain.train(*make_sgd(options, r.federation, *r.model), 0);
  expect_close(mine.row, Numbers(plain.row.begin(), plain.row.end()), 1e-6);
  options.clip = 1e30;  // never clips, and takes the same way through the arithmetic
  OneRound same_way(theta);
  same_way.train(*make_sgd(options, r.federation, *r.model), 0);
  EXPECT_EQ(mine.row, same_way.row);
  EXPECT_EQ(mine.outcome.loss, same_way.outcome.loss);
  EXPECT_EQ(mine.outcome.samples, 10);
  // c_i+ = (x - y) / (K lr), K = 6
  for (std::size_t i = 0; i < theta.size(); ++i) {
    EXPECT_NEAR(mine.state[i], (theta[i] - mine.row[i]) / (6 * 0.05), 1e-5);
  }
  EXPECT_EQ(mine.change, mine.state);
}

// y <- y - lr (g - c_i + c), and c_i+ is the mean of the g, with weight decay and PropFair's slope
// among them and the learning rate of the round.
TEST(Scaffold, NewControlIsTheMeanOfTheGradientsVisited) {
  const Regression r(random_clients());
  ClientOptions options = scaffold_steps(7, 0.08);
  options.lr_decay = 0.5;
  options.lr_decay_every = 2;
  options.weight_decay = 0.2;
  const Row theta{1, -2, 0.5};
  const Numbers old_state{0.3, -0.7, 1.1};
  const Numbers control{-0.4, 0.2, 0.9};
  for (const double base : {0.0, 12.0}) {
    options.propfair.base = base;
    for (std::size_t client = 0; client < r.clients.size(); ++client) {
      OneRound mine(theta);
      mine.state.assign(old_state.begin(), old_state.end());
      mine.control.assign(control.begin(), control.end());
      mine.train(*make_scaffold(options, r.federation, *r.model), static_cast<int64_t>(client), 3);

      Numbers y(theta.begin(), theta.end());
      Numbers mean(3), gradient;
      for (int step = 0; step < 7; ++step) {
        const double loss = r.loss_and_gradient(client, y, gradient);
        const double slope = propfair_slope(options.propfair, loss);
        for (std::size_t j = 0; j < y.size(); ++j) {
          const double g = slope * gradient[j] + 0.2 * y[j];
          mean[j] += g / 7;
          y[j] -= 0.04 * (g - old_state[j] + control[j]);
        }
      }
      expect_close(mine.row, y, 2e-6);
      expect_close(mine.state, mean, 1e-5);
      for (std::size_t j = 0; j < y.size(); ++j) mean[j] -= old_state[j];
      expect_close(mine.change, mean, 1e-5);
    }
  }
}

// v <- beta v + g - c_i + c, y <- y - lr v (Nesterov's: y - lr (g - c_i + c + beta v)), and c_i+ is
// the mean of the g with their weights in x - y.
TEST(Scaffold, WithMomentumTheControlIsTheWeightedMean) {
  const Regression r(random_clients());
  const Row theta{1, -2, 0.5};
  const Numbers old_state{0.3, -0.7, 1.1}, control{-0.4, 0.2, 0.9};
  const int steps = 6;
  const double beta = 0.8, lr = 0.03;
  for (const bool nesterov : {false, true}) {
    ClientOptions options = scaffold_steps(steps, lr);
    options.momentum = beta;
    options.optimizer.nesterov = nesterov;
    OneRound mine(theta);
    mine.state.assign(old_state.begin(), old_state.end());
    mine.control.assign(control.begin(), control.end());
    mine.train(*make_scaffold(options, r.federation, *r.model), 1);

    Numbers y(theta.begin(), theta.end()), v(3), mean(3), gradient;
    double weights = 0;
    for (int step = 0; step < steps; ++step) {
      r.loss_and_gradient(1, y, gradient);
      // In v of each step t from this one on it is beta^(t - step); Nesterov's direction has it
      // once more itself, and beta v.
      double weight = nesterov ? 1 : 0;
      for (int later = step; later < steps; ++later) {
        weight += std::pow(beta, later - step + (nesterov ? 1 : 0));
      }
      weights += weight;
      for (std::size_t j = 0; j < y.size(); ++j) {
        const double g = gradient[j] - old_state[j] + control[j];
        mean[j] += weight * gradient[j];
        v[j] = beta * v[j] + g;
        y[j] -= lr * (nesterov ? g + beta * v[j] : v[j]);
      }
    }
    for (double& m : mean) m /= weights;
    expect_close(mine.row, y, 2e-6);
    expect_close(mine.state, mean, 2e-5);
  }
}

TEST(Scaffold, IsAPureFunctionOfTheTask) {
  const Regression r(random_clients());
  ClientOptions options{{.epochs = 3, .batch = 3}, {.lr = 0.1}, {.kind = "scaffold"}};
  expect_pure_function(*make_scaffold(options, r.federation, *r.model));
  options.momentum = 0.5;
  expect_pure_function(*make_scaffold(options, r.federation, *r.model));
}

// Two clients with F_i = sum_j h_ij (w_j - o_ij)^2 / 2: one sample an axis.
struct Rivals {
  static constexpr int64_t kSteps = 10;
  static constexpr double kLr = 0.05;
  const Numbers h[2] = {{2, 0.5}, {0.5, 4.5}};
  const Numbers o[2] = {{1, 3}, {-1, 1}};

  // The stationary point when client i counts weight(h_ij) on axis j.
  template <class Weight>
  Numbers balance(Weight weight) const {
    Numbers w;
    for (std::size_t j = 0; j < 2; ++j) {
      const double a = weight(h[0][j]), b = weight(h[1][j]);
      w.push_back((a * o[0][j] + b * o[1][j]) / (a + b));
    }
    return w;
  }

  const Regression regression{{Samples{{{2, 0}, {0, 1}}, {2, 3}},  //
                               Samples{{{1, 0}, {0, 3}}, {-1, 3}}}};
};

// The server of Algorithm 1 with both clients in every round and a global step of 1.
struct Server {
  explicit Server(LocalUpdate& local) : update(local) {}

  void round() {
    Row mean_row(2), mean_change(2);
    for (std::size_t i = 0; i < 2; ++i) {
      OneRound p(theta);
      p.state = states[i];
      p.control = control;
      p.train(update, static_cast<int64_t>(i));
      states[i] = p.state;
      for (std::size_t j = 0; j < 2; ++j) {
        mean_row[j] += p.row[j] / 2;
        mean_change[j] += p.change[j] / 2;
      }
    }
    theta = mean_row;
    if (update.control_width() == 0) return;
    for (std::size_t j = 0; j < 2; ++j) control[j] += mean_change[j];
  }

  LocalUpdate& update;
  Row theta{5, -5};
  Row control{0, 0};
  Row states[2] = {{0, 0}, {0, 0}};
};

// The point of the paper: local steps on unlike clients do not move the solution.
TEST(Scaffold, FindsTheOptimumThatFedavgMisses) {
  const Rivals rivals;
  const Numbers optimum = rivals.balance([](double h) { return h; });
  const Numbers drifted =
      rivals.balance([](double h) { return 1 - std::pow(1 - Rivals::kLr * h, Rivals::kSteps); });
  for (std::size_t j = 0; j < 2; ++j) ASSERT_GT(std::abs(optimum[j] - drifted[j]), 0.1);

  const Regression& r = rivals.regression;
  const ClientOptions options = scaffold_steps(Rivals::kSteps, Rivals::kLr);
  const auto sgd = make_sgd(options, r.federation, *r.model);
  const auto scaffold = make_scaffold(options, r.federation, *r.model);
  Server fedavg(*sgd), mine(*scaffold);
  for (int round = 0; round < 200; ++round) {
    fedavg.round();
    mine.round();
    for (std::size_t j = 0; j < 2; ++j) {  // c stays the mean of the c_i
      ASSERT_NEAR(mine.control[j], (mine.states[0][j] + mine.states[1][j]) / 2, 1e-4);
    }
  }
  expect_close(fedavg.theta, drifted, 1e-5);
  expect_close(mine.theta, optimum, 1e-5);
  expect_close(mine.control, {0, 0}, 1e-4);  // the gradient of the mean loss at its optimum
  for (std::size_t i = 0; i < 2; ++i) {
    Numbers gradient;
    r.loss_and_gradient(i, optimum, gradient);
    expect_close(mine.states[i], gradient, 1e-4);
  }
}

}  // namespace
}  // namespace hanse
