// MoFedSAM over whole rounds: the direction that clients get is the server's last step.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "client/support.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "protocol/resume.hpp"
#include "protocol/trainer_fixture.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kRivals = 5, kSteps = 4;
constexpr double kRate = 0.05;

struct RivalJob {
  ClientWeights weights = ClientWeights::kSamples;
  double rho = 0.1, momentum = 0.8;
};

struct RivalTraining : TrainerFixture<> {
  RivalTraining(Communicator& all, const RivalJob& job)
      : TrainerFixture(all, [](Communicator& local) {
          return make_federation(local, rivals({3, 7, 2, 5, 4}));
        }) {
    model = make_model({.kind = "linear", .loss = "squared-error", .bias = false},
                       federation.sample_shape(), 0);
    ClientOptions client{{.steps = kSteps, .batch = 2},
                         {.lr = kRate},
                         {.kind = "fedsam", .global_momentum = job.momentum}};
    client.second_order.rho = job.rho;
    update = make_fedsam(client, federation, *model);
    aggregator = make_fedavg(job.weights, Estimator::kNormalized, kRivals);
    sampler = make_uniform_sampler(kRivals, 2);
    settings.seed = 3;
    settings.equal_importance = job.weights == ClientWeights::kUniform;
    start();
  }
};

// All make K steps, so that D = (theta_t - theta_{t+1}) / (K lr), whoever took part.
TEST(FedSamRounds, TheDirectionIsTheServersLastStep) {
  const auto comm = make_single_communicator();
  for (const ClientWeights weights : {ClientWeights::kSamples, ClientWeights::kUniform}) {
    for (const double rho : {0.0, 0.1}) {
      RivalTraining training(*comm, {.weights = weights, .rho = rho});
      for (int round = 1; round <= 6; ++round) {
        const auto row = training.trainer->model_row();
        const std::vector<float> before(row.begin(), row.end());
        EXPECT_FALSE(training.trainer->round(false).failed);
        State state;
        training.trainer->save(state);
        const auto& control = state.get<float>("control");
        ASSERT_EQ(control.size(), before.size() + 1);
        for (std::size_t i = 0; i < before.size(); ++i) {
          EXPECT_NEAR(control[i], (before[i] - row[i]) / (kSteps * kRate), 1e-4) << round;
        }
        EXPECT_EQ(control.back(), 1);
      }
    }
  }
}

// The momentum is in the model: without it the second round has another one.
TEST(FedSamRounds, TheDirectionMovesTheModel) {
  const auto comm = make_single_communicator();
  RivalTraining with(*comm, {}), without(*comm, {.momentum = 0});
  for (int round = 1; round <= 2; ++round) {
    with.trainer->round(false);
    without.trainer->round(false);
  }
  EXPECT_NE(with.trainer->model_row()[0], without.trainer->model_row()[0]);
}

TEST(FedSamRounds, SameBitsOnAnyNumberOfRanksAndAfterAResume) {
  for (const double momentum : {0.0, 0.8}) {
    const RivalJob job{.momentum = momentum};
    const Kept straight = train_and_keep<RivalTraining>(1, job, 9);
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const Kept kept = train_and_keep<RivalTraining>(ranks, job, 9);
      EXPECT_EQ(kept.server.arrays(), straight.server.arrays()) << ranks;
      const Kept half = train_and_keep<RivalTraining>(5 - ranks, job, 4);
      EXPECT_EQ(go_on<RivalTraining>(ranks, job, half, 5), straight.server.get<float>("model"))
          << "resumed on " << ranks;
    }
  }
}

}  // namespace
}  // namespace hanse
