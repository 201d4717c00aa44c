// What a round computes: against a slow loop, and the same bits for every way to spread the work.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "protocol/tiny_training.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kRounds = 8;

// FedAvg in double precision, one client after another, as its papers write it.
std::vector<double> slow_training(const TinyJob& job, int64_t rounds) {
  const auto comm = make_single_communicator();
  const Federation federation = tiny_federation(*comm);
  const auto sampler = make_tiny_sampler(job, federation);
  TinyUpdate update(false);
  std::vector<float> row(kParams);
  RandomStream initial(kSeed, Purpose::kInitialize);
  TinyModel().initialize(row, initial);
  std::vector<double> theta(row.begin(), row.end()), velocity(kParams);
  for (int64_t round = 1; round <= rounds; ++round) {
    RandomStream stream(kSeed, Purpose::kSampling, static_cast<uint64_t>(round));
    const Draw draw = sampler->draw(round, sampler->per_round(), stream);
    std::vector<double> sum(kParams);
    double total = 0;
    for (std::size_t k = 0; k < draw.size(); ++k) {
      const double samples = static_cast<double>(federation.train(draw.clients[k]).size());
      const double lambda = samples / static_cast<double>(federation.train_samples());
      const double q = job.fedavg.weights == ClientWeights::kSamples ? lambda : 1.0 / kClients;
      const double coefficient = q * draw.weights[k];
      total += coefficient;
      row.assign(theta.begin(), theta.end());
      update.train({.client = draw.clients[k], .round = round, .seed = kSeed, .row = row});
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += coefficient * (static_cast<double>(row[i]) - theta[i]);
      }
    }
    const double scale = job.fedavg.estimator == Estimator::kNormalized ? 1 / total : 1;
    const double beta = job.server.optimizer == "momentum" ? job.server.beta : 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      velocity[i] = beta * velocity[i] + scale * sum[i];
      theta[i] += job.server.lr * velocity[i];
    }
  }
  return theta;
}

std::vector<TinyJob> jobs() {
  std::vector<TinyJob> all(5);
  all[1].sampler = "weighted";
  all[1].fedavg = {ClientWeights::kUniform, Estimator::kNormalized};
  all[2].sampler = "full";
  all[2].fedavg = {ClientWeights::kSamples, Estimator::kUnbiased};
  all[3].fedavg = {ClientWeights::kUniform, Estimator::kUnbiased};
  all[3].server = {.optimizer = "momentum", .lr = 0.5, .beta = 0.8};
  all[4].per_round = 1;
  return all;
}

TEST(FederatedTrainer, EqualsASlowLoopInDoublePrecision) {
  for (const TinyJob& job : jobs()) {
    const auto expected = slow_training(job, kRounds);
    const auto row = train_threads(2, job, kRounds);
    for (std::size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(row[i], expected[i], 1e-6) << job.sampler << " " << i;
    }
  }
}

TEST(FederatedTrainer, FastReductionIsCloseToIt) {
  TinyJob job;
  job.comm.reduction = Reduction::kFast;
  const auto expected = slow_training(job, kRounds);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const auto row = train_threads(ranks, job, kRounds);
    for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], expected[i], 1e-5);
  }
}

// All ways to spread the work of `job` over 1 to 4 ranks end with the same model.
void expect_same_bits(TinyJob job) {
  const auto alone = train_threads(1, job, kRounds);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const ServerRole role : {ServerRole::kShared, ServerRole::kDedicated}) {
      for (const AskedDispatch dispatch : {AskedDispatch::kPlanned, AskedDispatch::kShared}) {
        for (const bool apart : {false, true}) {
          job.server.role = role;
          job.comm.dispatch = dispatch;
          job.apart = apart;
          EXPECT_EQ(train_threads(ranks, job, kRounds), alone)
              << ranks << " ranks, " << name_of(role) << ", " << name_of(dispatch)
              << (apart ? ", apart" : "");
        }
      }
    }
  }
}

TEST(FederatedTrainer, SameBitsHoweverTheWorkIsSpread) {
  for (const TinyJob& job : jobs()) expect_same_bits(job);
}

TEST(FederatedTrainer, SameBitsWithMoreRanksThanParticipants) {
  TinyJob job;
  job.per_round = 2;
  expect_same_bits(job);
}

TEST(FederatedTrainer, SameBitsWhenTheRuleNeedsLosses) {
  TinyJob job;
  job.by_losses = true;
  expect_same_bits(job);
}

TEST(FederatedTrainer, SameBitsWhenClientsKeepState) {
  TinyJob job;
  job.stateful = true;
  expect_same_bits(job);
  TinyJob without = job;
  without.stateful = false;
  EXPECT_NE(train_threads(1, job, 3), train_threads(1, without, 3));
}

TEST(FederatedTrainer, TheRuleScalesTheStep) {
  TinyJob job;
  job.by_losses = true;
  const auto after_one_round = [&](double step) {
    const auto comm = make_single_communicator();
    TinyTraining training(*comm, job);
    dynamic_cast<LossAggregator&>(*training.aggregator).step = step;
    training.trainer->round(false);
    const auto row = training.trainer->model_row();
    return std::vector<float>(row.begin(), row.end());
  };
  const auto still = after_one_round(0);
  const auto half = after_one_round(0.5);
  const auto full = after_one_round(1);
  EXPECT_NE(still, full);
  for (std::size_t i = 0; i < full.size(); ++i) {
    EXPECT_NEAR(half[i] - still[i], (full[i] - still[i]) / 2, 1e-6);
  }
}

TEST(FederatedTrainer, AnEvaluationBringsTheModelToAllRanks) {
  const auto expected = train_threads(1, {}, 2);
  run_threads(3, [&](Communicator& comm) {
    TinyTraining training(comm, {});
    for (int i = 0; i < 2; ++i) training.trainer->round(false);
    training.trainer->evaluate();
    const auto row = training.trainer->model_row();
    EXPECT_EQ(std::vector<float>(row.begin(), row.end()), expected);
    EXPECT_EQ(training.trainer->completed_rounds(), 2);
  });
}

// Kernels that read the weights in place are a tenth slower in the middle of a line.
TEST(FederatedTrainer, RowsStartOnACacheLine) {
  const auto comm = make_single_communicator();
  TinyTraining tiny(*comm, {});
  int64_t trained = 0;
  const auto is_aligned = [](const float* row) {
    return reinterpret_cast<std::uintptr_t>(row) % 64 == 0;
  };
  tiny.update->spoil = [&](const ClientTask& task, ClientOutcome&) {
    EXPECT_TRUE(is_aligned(task.row.data()));
    ++trained;
  };
  tiny.trainer->round(false);
  EXPECT_TRUE(is_aligned(tiny.trainer->model_row().data()));
  EXPECT_GT(trained, 0);
}

// F_i at the received model over the client's training samples, in the order drawn.
TEST(FederatedTrainer, TheRuleGetsTheLossesInDrawOrder) {
  TinyJob job;
  job.by_losses = true;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      TinyTraining training(comm, job);
      for (uint64_t round = 1; round <= 3; ++round) {
        const auto model = training.trainer->model_row();
        const std::vector<float> before(model.begin(), model.end());
        training.trainer->round(false);
        if (comm.rank() != 0) continue;
        RandomStream stream(kSeed, Purpose::kSampling, round);
        const auto sampler = make_tiny_sampler(job, training.federation);
        const Draw draw = sampler->draw(static_cast<int64_t>(round), sampler->per_round(), stream);
        const auto& told = dynamic_cast<LossAggregator&>(*training.aggregator);
        EXPECT_EQ(told.clients, draw.clients);
        for (std::size_t k = 0; k < draw.size(); ++k) {
          const SampleRange range = training.federation.train(draw.clients[k]);
          std::vector<float> x(static_cast<std::size_t>(3 * range.size()));
          training.federation.copy(range, x.data());
          const auto sums = TinyModel().evaluate(
              before, {.features = x.data(),
                       .labels = training.federation.labels().data() + range.begin,
                       .rows = range.size()});
          EXPECT_NEAR(told.losses[k], sums.loss / static_cast<double>(range.size()), 1e-12);
        }
      }
    });
  }
}

}  // namespace
}  // namespace hanse
