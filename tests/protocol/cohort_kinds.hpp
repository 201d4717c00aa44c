// Rounds of a job's kinds, trained side by side on a device or one after another, on one rank or
// several.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "protocol/kinds_run.hpp"
#include "protocol/resume.hpp"
#include "support/devices.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {

struct Outcome {
  std::vector<float> row;
  std::vector<double> losses;    // of the rounds
  std::vector<double> measures;  // what the rounds tell of attackers
  std::vector<double> worth;     // what evaluations tell of each client
};

inline std::vector<double> worth_of(FederatedTrainer& trainer) {
  std::vector<double> worth;
  for (const ClientEvaluation& client : trainer.evaluate()) {
    for (const double x :
         {client.samples, client.loss, client.accuracy, client.train_samples, client.train_loss}) {
      worth.push_back(x);
    }
  }
  return worth;
}

inline Outcome outcome_of(int ranks, const KindsJob& job) {
  Outcome result;
  run_threads(ranks, [&](Communicator& comm) {
    KindsRun run(comm, job);
    for (int64_t round = 0; round < job.rounds; ++round) {
      const RoundRecord record = run.trainer->round(false);
      if (const auto failure = run.trainer->failure()) std::rethrow_exception(failure);
      if (comm.rank() != 0) continue;
      result.losses.push_back(record.loss);
      for (const auto& [name, value] : record.more) {
        const bool is_measure = name == "kappa_hat" || name == "byzantine_weight" ||
                                name == "honest_recall" || name == "attack_strength";
        if (is_measure) result.measures.push_back(value);
      }
    }
    const std::vector<double> worth =
        job.evaluates ? worth_of(*run.trainer) : std::vector<double>();
    run.trainer->collect();
    const auto row = run.trainer->model_row();
    if (comm.rank() == 0) result.worth = worth;
    if (comm.rank() == 0) result.row.assign(row.begin(), row.end());
  });
  return result;
}

// A job trained by cohorts has the result of one client after another within float tolerance, and
// the same bits on 1 to 4 ranks and behind a checkpoint.
inline void expect_agreement(const std::string& name, KindsJob job) {
  for (const std::string& device : test_devices()) {
    job.device = device;
    const std::string what = name + " on " + device;
    const Outcome alone = outcome_of(1, job);
    KindsJob by_host = job;
    by_host.cohort = 0;
    const Outcome expected = outcome_of(1, by_host);
    ASSERT_EQ(alone.row.size(), expected.row.size()) << what;
    for (std::size_t i = 0; i < alone.row.size(); ++i) {
      ASSERT_NEAR(alone.row[i], expected.row[i], 1e-5 * static_cast<double>(job.rounds)) << what;
    }
    for (std::size_t i = 0; i < alone.losses.size(); ++i) {
      EXPECT_NEAR(alone.losses[i], expected.losses[i], 1e-4) << what;
    }
    ASSERT_EQ(alone.worth.size(), expected.worth.size()) << what;
    for (std::size_t i = 0; i < alone.worth.size(); ++i) {
      EXPECT_NEAR(alone.worth[i], expected.worth[i], 1e-4 * (1 + std::abs(expected.worth[i])))
          << what;
    }
    for (int ranks = 2; ranks <= 4; ++ranks) {
      const Outcome together = outcome_of(ranks, job);
      EXPECT_EQ(together.row, alone.row) << what << ", ranks: " << ranks;
      EXPECT_EQ(together.losses, alone.losses) << what << ", ranks: " << ranks;
      EXPECT_EQ(together.worth, alone.worth) << what << ", ranks: " << ranks;
    }
    const Kept kept = train_and_keep<KindsRun>(3, job, 2);
    EXPECT_EQ(go_on<KindsRun>(1, job, kept, job.rounds - 2), alone.row) << what;
    EXPECT_EQ(go_on<KindsRun>(4, job, kept, job.rounds - 2), alone.row) << what;
  }
}

}  // namespace hanse
