// apfl, pfedme and per-fedavg: each against its equations in float64, on quadratics.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {
namespace {

const Row kTheta{1, -2, 0.5};

// w <- w - lr (g + weight_decay w)
void descend(const Regression& r, std::size_t client, Numbers& w, double lr, double decay = 0) {
  Numbers gradient;
  r.loss_and_gradient(client, w, gradient);
  for (std::size_t j = 0; j < w.size(); ++j) w[j] -= lr * (gradient[j] + decay * w[j]);
}

Numbers mixture(double a, const Numbers& v, const Numbers& w) {
  Numbers mixed(v.size());
  for (std::size_t j = 0; j < v.size(); ++j) mixed[j] = a * v[j] + (1 - a) * w[j];
  return mixed;
}

Numbers numbers(const Row& row) { return {row.begin(), row.end()}; }
Numbers first_three(const Row& row) { return {row.begin(), row.begin() + 3}; }

ClientOptions apfl_options(double mixture, bool adapt) {
  return {{.epochs = 3, .batch = 2},
          {.lr = 0.05, .weight_decay = 0.1},
          {.kind = "apfl", .mixture = mixture, .adapt = adapt}};
}

TEST(Apfl, RowIsThatOfSgdBitForBit) {
  const Regression r(random_clients());
  for (const double a : {0.0, 0.3, 1.0}) {
    const ClientOptions options = apfl_options(a, true);
    const auto sgd = make_sgd(options, r.federation, *r.model);
    const auto apfl = make_apfl(options, r.federation, *r.model);
    OneRound mine(*apfl, kTheta);
    for (int64_t round = 1; round <= 3; ++round) {
      OneRound plain(mine.row);
      mine.train(*apfl, 0, round);
      plain.train(*sgd, 0, round);
      EXPECT_EQ(mine.row, plain.row);
      EXPECT_EQ(mine.outcome.loss, plain.outcome.loss);
      EXPECT_EQ(mine.outcome.samples, plain.outcome.samples);
    }
  }
}

TEST(Apfl, WithoutAShareTheOwnModelStays) {
  const Regression r(random_clients());
  ClientOptions options = apfl_options(0, false);
  options.weight_decay = 0;
  const auto apfl = make_apfl(options, r.federation, *r.model);
  OneRound mine(*apfl, kTheta);
  for (int64_t round = 1; round <= 3; ++round) mine.train(*apfl, 0, round);
  EXPECT_EQ(Row(mine.state.begin(), mine.state.begin() + 3), kTheta);
  EXPECT_EQ(mine.state[3], 0);
  OneRound asks(*apfl, {9, 8, 7});  // whose own model is the model of the day
  asks.state = mine.state;
  apfl->own_model(asks.task(0, 4));
  EXPECT_EQ(asks.row, (Row{9, 8, 7}));
}

TEST(Apfl, WithAllTheShareTheOwnModelIsTrainedAlone) {
  const Regression r(random_clients());
  const ClientOptions options = apfl_options(1, false);
  const auto sgd = make_sgd(options, r.federation, *r.model);
  const auto apfl = make_apfl(options, r.federation, *r.model);
  OneRound alone(kTheta);
  Row state(5);
  for (int64_t round = 1; round <= 3; ++round) {
    OneRound mine(round == 1 ? kTheta : Row{5, 5, static_cast<float>(round)}, 5);
    mine.state = state;
    mine.train(*apfl, 2, round);
    state = mine.state;
    alone.train(*sgd, 2, round);
  }
  expect_close({state.begin(), state.begin() + 3}, numbers(alone.row), 1e-5);
  OneRound asks(*apfl, {9, 8, 7});
  asks.state = state;
  apfl->own_model(asks.task(2, 4));
  EXPECT_EQ(asks.row, Row(state.begin(), state.begin() + 3));
}

// Both models and the share, of two rounds, by the paper and by the authors' code.
TEST(Apfl, FollowsTheAlgorithm) {
  const Regression r(random_clients());
  const double lr = 0.06, decay = 0.2;
  for (const auto variant : {UpdateVariant::kPaper, UpdateVariant::kReference}) {
    const ClientOptions options{{.steps = 4, .batch = 0},
                                {.lr = lr, .weight_decay = decay},
                                {.kind = "apfl", .mixture = 0.4, .variant = variant}};
    const auto apfl = make_apfl(options, r.federation, *r.model);
    for (std::size_t client = 0; client < 3; ++client) {
      Numbers v = numbers(kTheta), gradient;
      double a = 0.4;
      Row state(5);
      for (int64_t round = 1; round <= 3; ++round) {
        OneRound mine({1, -2, 0.5F * static_cast<float>(round)}, 5);
        mine.state = state;
        Numbers w = numbers(mine.row);
        mine.train(*apfl, static_cast<int64_t>(client), round);
        state = mine.state;
        r.loss_and_gradient(client, mixture(a, v, w), gradient);
        double slope = variant == UpdateVariant::kReference ? 0.02 * a : 0;
        for (std::size_t j = 0; j < 3; ++j) slope += (v[j] - w[j]) * gradient[j];
        a = std::clamp(a - lr * slope, 0.0, 1.0);
        for (int step = 0; step < 4; ++step) {
          r.loss_and_gradient(client, mixture(a, v, w), gradient);
          for (std::size_t j = 0; j < 3; ++j) v[j] -= lr * (a * gradient[j] + decay * v[j]);
          descend(r, client, w, lr, decay);
        }
        expect_close(mine.row, w, 1e-5);
        expect_close({state.begin(), state.begin() + 3}, v, 1e-5);
        EXPECT_NEAR(state[3], a, 1e-5);
      }
    }
  }
}

// <v - w, grad F(v')> is the derivative of F(a v + (1 - a) w) by a.
TEST(Apfl, ShareMovesAlongItsDerivative) {
  const Regression r(random_clients());
  const double lr = 1e-3, a = 0.4, h = 1e-6;
  const ClientOptions options{{.steps = 1, .batch = 0}, {.lr = lr}, {.kind = "apfl", .mixture = a}};
  const auto apfl = make_apfl(options, r.federation, *r.model);
  OneRound mine(*apfl, kTheta);
  const Numbers v{0.5, 1, -1}, w = numbers(kTheta);
  mine.state = {0.5, 1, -1, static_cast<float>(a), 1};
  mine.train(*apfl, 0);
  Numbers unused;
  const double slope = (r.loss_and_gradient(0, mixture(a + h, v, w), unused) -
                        r.loss_and_gradient(0, mixture(a - h, v, w), unused)) /
                       (2 * h);
  ASSERT_GT(std::abs(slope), 0.1);
  EXPECT_NEAR((a - static_cast<double>(mine.state[3])) / lr, slope, 2e-3 * std::abs(slope));
}

TEST(Apfl, ShareStaysBetweenNoughtAndOne) {
  const Regression r(random_clients());
  Numbers gradient;
  r.loss_and_gradient(0, numbers(kTheta), gradient);
  for (const double along : {1e-3, -1e-3}) {  // v - w along the gradient: a falls
    const ClientOptions options{
        {.steps = 1, .batch = 0}, {.lr = 1e6}, {.kind = "apfl", .mixture = 0.5}};
    const auto apfl = make_apfl(options, r.federation, *r.model);
    OneRound mine(*apfl, kTheta);
    for (std::size_t j = 0; j < 3; ++j) {
      mine.state[j] = static_cast<float>(kTheta[j] + along * gradient[j]);
    }
    mine.state[3] = 0.5;
    mine.state[4] = 1;
    mine.train(*apfl, 0);
    EXPECT_EQ(mine.state[3], along > 0 ? 0 : 1);
  }
}

TEST(Apfl, IsAPureFunctionAndTellsWhatItShows) {
  const Regression r(random_clients());
  const auto apfl = make_apfl(apfl_options(0.5, true), r.federation, *r.model);
  EXPECT_EQ(apfl->shown_block(), "mixture");
  EXPECT_EQ(apfl->state_width(), 5);
  EXPECT_FALSE(apfl->trains_side_by_side());
  expect_pure_function(*apfl);
  OneRound newcomer(*apfl, {5, 6, 7});
  apfl->own_model(newcomer.task(1, 3));
  EXPECT_EQ(newcomer.row, (Row{5, 6, 7}));
}

ClientOptions pfedme_options(int64_t inner, double mu) {
  return {{.steps = 3, .batch = 0},
          {.lr = 0.03, .weight_decay = 0.1},
          {.kind = "pfedme", .mu = mu, .inner = inner, .inner_lr = 0.05}};
}

TEST(PFedMe, FollowsTheAlgorithm) {
  const Regression r(random_clients());
  for (const int64_t inner : {1, 4}) {
    const auto pfedme = make_pfedme(pfedme_options(inner, 2), r.federation, *r.model);
    for (std::size_t client = 0; client < 3; ++client) {
      OneRound mine(*pfedme, kTheta);
      mine.train(*pfedme, static_cast<int64_t>(client));
      Numbers w = numbers(kTheta), x = w, gradient;
      for (int step = 0; step < 3; ++step) {
        for (int64_t k = 0; k < inner; ++k) {
          r.loss_and_gradient(client, x, gradient);
          for (std::size_t j = 0; j < 3; ++j) {
            x[j] -= 0.05 * (gradient[j] + 0.1 * x[j] + 2 * (x[j] - w[j]));
          }
        }
        for (std::size_t j = 0; j < 3; ++j) w[j] -= 0.03 * 2 * (w[j] - x[j]);
      }
      expect_close(mine.row, w, 1e-5);
      expect_close({mine.state.begin(), mine.state.begin() + 3}, x, 1e-5);
      OneRound asks(*pfedme, {9, 8, 7});
      asks.state = mine.state;
      pfedme->own_model(asks.task(static_cast<int64_t>(client), 2));
      expect_close(asks.row, x, 1e-5);
    }
  }
}

// With K = 1 and no pull x makes the steps of SGD, and w does not move.
// A model that counts its steps in a buffer.
class Counting final : public Model {
 public:
  Counting() {
    layout_.add("w", {3}, 1);
    layout_.add_buffer("steps", {1});
  }
  double loss_and_gradient(std::span<const float> row, const Batch&, RandomStream&,
                           std::span<float> gradient) override {
    steps_ = row[3] + 1;
    std::ranges::copy(row, gradient.begin());
    return 0;
  }
  void move_buffers(std::span<float> row) const override { row[3] = steps_; }
  double sgd_step(std::span<float>, const Batch&, RandomStream&, double, double) override {
    return 0;
  }
  EvaluationSums evaluate(std::span<const float>, const Batch&, SampleResults) override {
    return {};
  }

 private:
  float steps_ = 0;
};

TEST(PFedMe, BuffersAreThoseOfTheInnerSteps) {
  const Regression r(random_clients());
  Counting model;
  const ClientOptions options{
      {.steps = 2, .batch = 0}, {.lr = 0.1}, {.kind = "pfedme", .mu = 2, .inner = 3}};
  const auto pfedme = make_pfedme(options, r.federation, model);
  OneRound mine(*pfedme, {1, -2, 0.5, 4});
  mine.train(*pfedme, 0);
  EXPECT_EQ(mine.row[3], 4 + 2 * 3);
  EXPECT_EQ(mine.state[3], mine.row[3]);
}

TEST(PFedMe, WithoutAPullTheOwnModelIsSgd) {
  const Regression r(random_clients());
  ClientOptions options = pfedme_options(1, 0);
  const auto pfedme = make_pfedme(options, r.federation, *r.model);
  OneRound mine(*pfedme, kTheta);
  mine.train(*pfedme, 0);
  options.lr = options.inner_lr;
  OneRound plain(kTheta);
  plain.train(*make_sgd(options, r.federation, *r.model), 0);
  expect_close({mine.state.begin(), mine.state.begin() + 3}, numbers(plain.row), 1e-5);
  EXPECT_EQ(mine.row, kTheta);
}

// x* = (H + mu)^-1 (mu w - g0): what many inner steps reach has the gradient mu (w - x*).
TEST(PFedMe, ManyInnerStepsSolveTheInnerProblem) {
  const Regression r(random_clients());
  const ClientOptions options{{.steps = 1, .batch = 0},
                              {.lr = 0.03},
                              {.kind = "pfedme", .mu = 3, .inner = 400, .inner_lr = 0.1}};
  const auto pfedme = make_pfedme(options, r.federation, *r.model);
  for (std::size_t client = 0; client < 3; ++client) {
    OneRound mine(*pfedme, kTheta);
    mine.train(*pfedme, static_cast<int64_t>(client));
    const Numbers x = first_three(mine.state);
    Numbers gradient;
    r.loss_and_gradient(client, x, gradient);
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_NEAR(gradient[j], 3 * (static_cast<double>(kTheta[j]) - x[j]), 1e-4);
      EXPECT_NEAR(mine.row[j], kTheta[j] - 0.03 * gradient[j], 1e-5);  // a step on the envelope
    }
  }
}

// Each round starts from the received model; the state is its last x alone.
TEST(PFedMe, IsAPureFunctionWithAStateThatTrainingForgets) {
  const Regression r(random_clients());
  const auto pfedme = make_pfedme(pfedme_options(2, 2), r.federation, *r.model);
  expect_pure_function(*pfedme);
  OneRound fresh(*pfedme, kTheta), other(*pfedme, kTheta);
  other.state = {7, 7, 7, 1};
  fresh.train(*pfedme, 0);
  other.train(*pfedme, 0);
  EXPECT_EQ(fresh.row, other.row);
  EXPECT_EQ(fresh.state, other.state);
}

ClientOptions per_fedavg_options(int64_t steps) {
  return {{.steps = steps, .batch = 0},
          {.lr = 0.06, .weight_decay = 0.2},
          {.kind = "per-fedavg", .inner_lr = 0.04}};
}

// Full batches: w <- w - lr grad F(w - inner_lr grad F(w)), and a fifth batch stands for both.
TEST(PerFedAvg, FollowsTheAlgorithm) {
  const Regression r(random_clients());
  for (const auto& [batches, made] : {std::pair{4, 2}, {5, 3}, {1, 1}}) {
    const auto update = make_per_fedavg(per_fedavg_options(batches), r.federation, *r.model);
    for (std::size_t client = 0; client < 3; ++client) {
      OneRound mine(*update, kTheta);
      mine.train(*update, static_cast<int64_t>(client));
      Numbers w = numbers(kTheta), gradient;
      for (int step = 0; step < made; ++step) {
        Numbers ahead = w;
        descend(r, client, ahead, 0.04, 0.2);
        r.loss_and_gradient(client, ahead, gradient);
        for (std::size_t j = 0; j < 3; ++j) w[j] -= 0.06 * (gradient[j] + 0.2 * ahead[j]);
      }
      expect_close(mine.row, w, 1e-5);
    }
    EXPECT_EQ(update->steps().optimizer_steps(5), made);
  }
}

// On quadratics of the batches 1 and 2: g2(w - inner g1(w)) = g2(w) - inner H2 g1(w). The two
// samples of this client are a batch each, in either order.
TEST(PerFedAvg, LooksAheadOnTheFirstOfTwoBatches) {
  const Regression r({{{{1, 2, 0}, {0, -1, 3}}, {2, -4}}});
  const ClientOptions options{
      {.epochs = 1, .batch = 1}, {.lr = 0.1}, {.kind = "per-fedavg", .inner_lr = 0.07}};
  const auto update = make_per_fedavg(options, r.federation, *r.model);
  OneRound mine(*update, kTheta);
  mine.train(*update, 0);
  const auto by_hand = [&](std::size_t first, std::size_t second) {
    const auto& [x, y] = r.clients[0];
    const auto error = [&](std::size_t i) {
      double e = -y[i];
      for (std::size_t j = 0; j < 3; ++j) e += static_cast<double>(kTheta[j]) * x[i][j];
      return e;
    };
    double across = 0;  // H2 g1 = x2 <x2, x1> e1
    for (std::size_t j = 0; j < 3; ++j) across += x[first][j] * x[second][j];
    Numbers w = numbers(kTheta);
    for (std::size_t j = 0; j < 3; ++j) {
      w[j] -= 0.1 * x[second][j] * (error(second) - 0.07 * across * error(first));
    }
    return w;
  };
  const Numbers one = by_hand(0, 1), other = by_hand(1, 0);
  const bool is_one = std::abs(mine.row[0] - one[0]) < 1e-5;
  expect_close(mine.row, is_one ? one : other, 1e-5);
}

TEST(PerFedAvg, KeepsNothingAndItsOwnModelIsTheReceivedOne) {
  const Regression r(random_clients());
  const auto update = make_per_fedavg(per_fedavg_options(3), r.federation, *r.model);
  EXPECT_EQ(update->state_width(), 0);
  expect_pure_function(*update);
  OneRound asks(*update, {5, 6, 7});
  update->own_model(asks.task(1, 3));
  EXPECT_EQ(asks.row, (Row{5, 6, 7}));
}

TEST(InnerSteps, AreThoseOfTheClientUnlessGiven) {
  ClientOptions options{{}, {.lr = 0.3}, {}};
  EXPECT_EQ(inner_steps(options).lr, 0.3);
  options.inner_lr = 0.2;
  EXPECT_EQ(inner_steps(options).lr, 0.2);
}

}  // namespace
}  // namespace hanse
