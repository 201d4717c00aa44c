// SCAFFOLD over whole rounds: linear regressions of clients that pull in different directions.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "client/support.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "protocol/resume.hpp"
#include "protocol/sampling_lines.hpp"
#include "protocol/trainer_fixture.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

const std::vector<int> kSamples = {3, 7, 2, 5, 4};
constexpr int64_t kRivals = 5;
constexpr uint64_t kSeed = 3;

struct RivalJob {
  std::string sampler = "uniform";  // uniform | full | osmd
  int64_t per_round = 2;
  ClientWeights weights = ClientWeights::kSamples;
  ClientOptions client{{.epochs = 1, .batch = 2}, {.lr = 0.05}, {.kind = "scaffold"}};
  std::function<Availability()> availability;
  bool regret = false;
};

std::unique_ptr<ClientSampler> make_sampler(const RivalJob& job) {
  if (job.sampler == "full") return make_full_sampler(kRivals);
  if (job.sampler == "uniform") return make_uniform_sampler(kRivals, job.per_round);
  return make_osmd_sampler({.kind = OsmdKind::kAdaptive, .rate_scale = 100, .horizon = 20}, kRivals,
                           job.per_round);
}

struct RivalTraining : TrainerFixture<> {
  RivalTraining(Communicator& all, const RivalJob& job)
      : TrainerFixture(
            all, [](Communicator& local) { return make_federation(local, rivals(kSamples)); }) {
    model = make_model({.kind = "linear", .loss = "squared-error", .bias = false},
                       federation.sample_shape(), 0);
    update =
        (job.client.kind == "scaffold" ? make_scaffold : make_sgd)(job.client, federation, *model);
    aggregator = make_fedavg(job.weights, Estimator::kNormalized, kRivals);
    sampler = make_sampler(job);
    if (job.availability) availability = job.availability();
    settings.seed = kSeed;
    settings.equal_importance = job.weights == ClientWeights::kUniform;
    settings.trace = true;
    settings.regret = job.regret;
    start();
  }
};

std::vector<double> importances(ClientWeights weights) {
  if (weights == ClientWeights::kUniform) return std::vector<double>(kRivals, 1.0 / kRivals);
  return {3 / 21.0, 7 / 21.0, 2 / 21.0, 5 / 21.0, 4 / 21.0};
}

// argmin of sum lambda_i F_i: the normal equations of two unknowns.
std::vector<double> optimum(ClientWeights weights) {
  const auto lambda = importances(weights);
  const auto clients = rivals(kSamples);
  double a = 0, b = 0, d = 0, u = 0, v = 0;
  for (std::size_t c = 0; c < clients.size(); ++c) {
    for (std::size_t i = 0; i < clients[c].y.size(); ++i) {
      const double share = lambda[c] / static_cast<double>(clients[c].y.size());
      const double x = clients[c].x[i][0], z = clients[c].x[i][1], y = clients[c].y[i];
      a += share * x * x;
      b += share * x * z;
      d += share * z * z;
      u += share * x * y;
      v += share * z * y;
    }
  }
  const double determinant = a * d - b * b;
  return {(d * u - b * v) / determinant, (a * v - b * u) / determinant};
}

double distance_after(const RivalJob& job, int64_t rounds) {
  const auto comm = make_single_communicator();
  RivalTraining training(*comm, job);
  for (int64_t round = 0; round < rounds; ++round) training.trainer->round(false);
  const auto row = training.trainer->model_row();
  const auto best = optimum(job.weights);
  return std::hypot(row[0] - best[0], row[1] - best[1]);
}

// Where FedAvg's clients drift apart between two rounds and its fixed point is another one.
TEST(ScaffoldRounds, ReachTheOptimumThatFedAvgMisses) {
  for (const ClientWeights weights : {ClientWeights::kSamples, ClientWeights::kUniform}) {
    for (const std::string sampler : {"full", "uniform"}) {
      RivalJob job;
      job.weights = weights;
      job.sampler = sampler;
      job.client.steps = 10;
      job.client.batch = 0;
      EXPECT_LT(distance_after(job, 600), 2e-5) << name_of(weights) << ", " << sampler;
      job.client.kind = "sgd";
      EXPECT_GT(distance_after(job, 600), 0.02) << name_of(weights) << ", " << sampler;
    }
  }
}

// c = sum lambda_i c_i after every round, also of clients that were drawn twice or are away.
void expect_control_is_the_mean(const RivalJob& job) {
  const auto comm = make_single_communicator();
  RivalTraining training(*comm, job);
  const auto lambda = importances(job.weights);
  double largest = 0;
  for (int round = 1; round <= 30; ++round) {
    EXPECT_FALSE(training.trainer->round(false).failed);
    State state;
    training.trainer->save(state);
    const auto& control = state.get<float>("control");
    std::vector<double> mean(control.size());
    for (const int64_t client : training.trainer->client_states()->clients()) {
      const auto own = training.trainer->client_states()->existing_row(client);
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] += lambda[static_cast<std::size_t>(client)] * static_cast<double>(own[i]);
      }
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      EXPECT_NEAR(control[i], mean[i], 2e-6) << job.sampler << ", round " << round;
      largest = std::max(largest, std::abs(mean[i]));
    }
  }
  EXPECT_GT(largest, 0.05);
}

TEST(ScaffoldRounds, TheServersControlIsTheWeightedMeanOfTheClients) {
  for (const ClientWeights weights : {ClientWeights::kSamples, ClientWeights::kUniform}) {
    for (const std::string sampler : {"full", "uniform", "osmd"}) {
      RivalJob job;
      job.weights = weights;
      job.sampler = sampler;
      expect_control_is_the_mean(job);
      job.availability = [] { return make_independent_availability(kRivals, 0.3); };
      job.regret = true;
      expect_control_is_the_mean(job);
    }
  }
}

TEST(ScaffoldRounds, SameBitsOnAnyNumberOfRanksAndAfterAResume) {
  for (const std::string sampler : {"full", "uniform", "osmd"}) {
    for (const bool away : {false, true}) {
      RivalJob job;
      job.sampler = sampler;
      if (sampler == "uniform") job.client.momentum = 0.7;
      if (away) job.availability = [] { return make_independent_availability(kRivals, 0.6); };
      const Kept straight = train_and_keep<RivalTraining>(1, job, 9);
      for (int ranks = 1; ranks <= 4; ++ranks) {
        const Kept kept = train_and_keep<RivalTraining>(ranks, job, 9);
        EXPECT_EQ(kept.server.arrays(), straight.server.arrays()) << sampler << " on " << ranks;
        EXPECT_EQ(kept.clients, straight.clients) << sampler << " on " << ranks;
        const Kept half = train_and_keep<RivalTraining>(5 - ranks, job, 4);
        EXPECT_EQ(go_on<RivalTraining>(ranks, job, half, 5), straight.server.get<float>("model"))
            << sampler << " resumed on " << ranks;
      }
    }
  }
}

// The control variates too are as if nobody had looked ahead.
TEST(ScaffoldRounds, MeasuringRegretLeavesNoTrace) {
  RivalJob job;
  job.sampler = "osmd";
  const Kept without = train_and_keep<RivalTraining>(1, job, 9);
  job.regret = true;
  for (int ranks = 1; ranks <= 3; ++ranks) {
    const Kept with = train_and_keep<RivalTraining>(ranks, job, 9);
    EXPECT_EQ(with.clients, without.clients);
    auto arrays = with.server.arrays();
    EXPECT_GT(with.server.get_one<double>("participation/regret"), 0);
    arrays["participation/regret"] = std::vector<double>{0};
    EXPECT_EQ(arrays, without.server.arrays());
  }
}

// a_i = lambda_i^2 |theta_i - theta|^2: with one participant the model moves to theta_i, and the
// estimate is a_i/q^2, q = 1/5.
TEST(ScaffoldRounds, FeedbackIsTheSquaredStepItself) {
  RivalJob job;
  job.per_round = 1;
  const auto comm = make_single_communicator();
  RivalTraining training(*comm, job);
  for (int round = 1; round <= 6; ++round) {
    const auto row = training.trainer->model_row();
    const std::vector<float> before(row.begin(), row.end());
    training.trainer->round(false);
    const auto client = static_cast<std::size_t>(training.trainer->trace().draw.clients.front());
    const double lambda = importances(ClientWeights::kSamples)[client];
    const double step = std::hypot(row[0] - before[0], row[1] - before[1]);
    EXPECT_NEAR(last_sampling_line(*training.trainer).estimate, 25 * lambda * lambda * step * step,
                1e-5 * step * step);
  }
}

}  // namespace
}  // namespace hanse
