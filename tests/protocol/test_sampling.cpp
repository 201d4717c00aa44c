// Rounds under every sampler: who is there, who is asked before, and the same bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "protocol/resume.hpp"
#include "protocol/sampling_lines.hpp"
#include "protocol/tiny_training.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kRounds = 8;

// Clients [0, left) are there in the rounds of `rounds`, everyone in all others.
std::function<Availability()> only(int64_t left, std::vector<int64_t> rounds) {
  return [=] {
    std::vector<Presence> presences;
    for (int64_t client = left; client < kClients; ++client) {
      for (int64_t round = 1; round <= kRounds; ++round) {
        if (std::count(rounds.begin(), rounds.end(), round) == 0) {
          presences.push_back({client, round, round});
        }
      }
    }
    return make_scheduled_availability(presences);
  };
}

std::vector<TinyJob> jobs() {
  std::vector<TinyJob> all;
  for (const std::string sampler : kTinySamplers) {
    for (const bool replacement : {true, false}) {
      const bool repeats = sampler != "uniform" && sampler != "full" && sampler != "oort" &&
                           sampler != "power-of-choice";
      if (replacement && !repeats) continue;
      TinyJob job;
      job.sampler = sampler;
      job.replacement = replacement;
      all.push_back(job);
    }
  }
  return all;
}

std::string name_of(const TinyJob& job) {
  return job.sampler + (job.replacement ? " with" : " without") + " replacement";
}

TEST(Sampling, SameBitsOnAnyNumberOfRanksAndAfterAResume) {
  for (TinyJob job : jobs()) {
    job.stateful = true;  // what training before the draw could spoil
    for (const bool all : {true, false}) {
      job.availability = nullptr;
      if (!all) job.availability = [] { return make_independent_availability(kClients, 0.7); };
      const auto straight = train_threads(1, job, kRounds);
      for (int ranks = 2; ranks <= 4; ++ranks) {
        EXPECT_EQ(train_threads(ranks, job, kRounds), straight) << name_of(job) << ", " << ranks;
        const Kept kept = train_and_keep<TinyTraining>(5 - ranks, job, 3);
        EXPECT_EQ(go_on<TinyTraining>(ranks, job, kept, kRounds - 3), straight)
            << name_of(job) << ", resumed on " << ranks;
      }
    }
  }
}

// The jobs are worth the test above: the learning samplers have left the uniform distribution.
TEST(Sampling, ProbabilitiesMove) {
  for (const TinyJob& job : jobs()) {
    const auto comm = make_single_communicator();
    TinyTraining training(*comm, job);
    for (int64_t round = 0; round < kRounds; ++round) training.trainer->round(false);
    double most = 0;
    for (int64_t client = 0; client < kClients; ++client) {
      most = std::max(most, training.sampler->probability(client));
    }
    if (training.sampler->even()) continue;
    EXPECT_GT(most, 1.1 / kClients) << name_of(job);
  }
}

using Arrays = std::map<std::string, StateArray>;

// What a checkpoint would hold, without the counts of rounds and of those without an update.
Arrays kept_by(const FederatedTrainer& trainer) {
  State state;
  trainer.save(state);
  Arrays arrays = state.arrays();
  arrays.erase("rounds");
  arrays.erase("idle/counts");
  return arrays;
}

// Nobody is there in rounds 3 and 4: nothing moves, momentum least of all, and no rank waits.
void expect_empty_rounds_change_nothing(int ranks, TinyJob job) {
  job.server.optimizer = "momentum";
  job.server.beta = 0.9;
  job.availability = only(0, {3, 4});
  run_threads(ranks, [&](Communicator& comm) {
    TinyTraining training(comm, job);
    for (int64_t round = 1; round <= 6; ++round) {
      const bool server = comm.rank() == 0;
      const auto before = server ? kept_by(*training.trainer) : Arrays();
      const RoundRecord record = training.trainer->round(false);
      EXPECT_EQ(training.trainer->failure(), nullptr);
      if (!server) continue;
      EXPECT_EQ(record.round, round);
      EXPECT_FALSE(record.failed);
      if (round != 3 && round != 4) {
        EXPECT_GT(record.participants, 0);
        EXPECT_NE(kept_by(*training.trainer), before);
        continue;
      }
      EXPECT_EQ(record.participants, 0);
      EXPECT_TRUE(std::isnan(record.loss) && std::isnan(record.mixed_loss));
      EXPECT_EQ(last_sampling_line(*training.trainer).available, 0);
      EXPECT_EQ(kept_by(*training.trainer), before);
    }
  });
}

TEST(Sampling, ARoundWithNobodyThereChangesNothing) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (TinyJob job : jobs()) {
      for (const AskedDispatch dispatch : {AskedDispatch::kPlanned, AskedDispatch::kAuto}) {
        job.comm.dispatch = dispatch;
        expect_empty_rounds_change_nothing(ranks, job);
      }
    }
    for (const ServerRole role : {ServerRole::kShared, ServerRole::kDedicated}) {
      TinyJob job;
      job.server.role = role;
      job.by_losses = true;
      expect_empty_rounds_change_nothing(ranks, job);
      job.by_losses = false;
      job.stateful = job.regret = true;
      job.comm.reduction = Reduction::kFast;
      expect_empty_rounds_change_nothing(ranks, job);
    }
  }
}

// Not more are there than are drawn: all take part with weight 1, whatever the sampler, and those
// by probabilities learn nothing from that.
TEST(Sampling, TheFewWhoAreThereAllTakePart) {
  TinyJob full;
  full.sampler = "full";
  full.fedavg = {ClientWeights::kSamples, Estimator::kUnbiased};
  for (const int64_t left : {1, 3, 4}) {
    for (TinyJob job : jobs()) {
      job.fedavg = full.fedavg;
      job.availability = full.availability = only(left, {1, 2, 3});
      const auto comm = make_single_communicator();
      TinyTraining training(*comm, job);
      TinyTraining expected(*comm, full);
      std::vector<double> before;
      for (int64_t client = 0; client < kClients; ++client) {
        before.push_back(job.sampler == "optimal" ? 0 : training.sampler->probability(client));
      }
      for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(training.trainer->round(false).participants, left) << name_of(job);
        expected.trainer->round(false);
      }
      const auto row = training.trainer->model_row();
      const auto all = expected.trainer->model_row();
      EXPECT_TRUE(std::equal(row.begin(), row.end(), all.begin())) << name_of(job);
      if (job.sampler == "optimal" || job.sampler == "oort") continue;
      for (int64_t client = 0; client < kClients; ++client) {
        EXPECT_EQ(training.sampler->probability(client), before[static_cast<std::size_t>(client)])
            << name_of(job);
      }
    }
  }
}

TEST(AllClientsFirst, LeavesNoTrace) {
  for (TinyJob job : jobs()) {
    for (const bool stateful : {false, true}) {
      job.stateful = stateful;
      job.availability = [] { return make_block_availability(kClients, 2, 3); };
      job.regret = false;
      const Kept without = train_and_keep<TinyTraining>(1, job, kRounds);
      job.regret = true;
      for (int ranks = 1; ranks <= 4; ++ranks) {
        const Kept with = train_and_keep<TinyTraining>(ranks, job, kRounds);
        EXPECT_EQ(with.clients, without.clients) << name_of(job);
        auto arrays = with.server.arrays();
        const bool best = job.sampler == "full" || job.sampler == "optimal";
        if (job.sampler != "oort") {  // which leaves clients out: no job may ask for its regret
          EXPECT_EQ(with.server.get_one<double>("participation/regret") > 1e-9, !best);
        }
        arrays["participation/regret"] = std::vector<double>{0};
        EXPECT_EQ(arrays, without.server.arrays()) << name_of(job);
      }
    }
  }
}

// a_m of all clients from the present model, one after another.
std::vector<double> slow_a(TinyTraining& training, int64_t round) {
  const auto model = training.trainer->model_row();
  std::vector<double> a;
  for (int64_t client = 0; client < kClients; ++client) {
    std::vector<float> row(model.begin(), model.end());
    std::vector<float> state(3);
    const auto kept = training.trainer->client_states();
    if (kept && kept->contains(client)) {
      const auto own = kept->existing_row(client);
      state.assign(own.begin(), own.end());
    }
    training.update->train({.client = client,
                            .round = round,
                            .seed = kSeed,
                            .row = row,
                            .state = std::span(state).first(kept ? 3 : 0)});
    double squared = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      squared += std::pow(static_cast<double>(row[i]) - static_cast<double>(model[i]), 2);
    }
    const auto samples = static_cast<double>(training.federation.train(client).size());
    const double lambda = samples / static_cast<double>(training.federation.train_samples());
    a.push_back(lambda * lambda * squared / (0.01 * std::ceil(samples / 20)));
  }
  return a;
}

// p ~ sqrt(a) of this round's model, states and random streams, not of the last round's.
TEST(AllClientsFirst, OptimalKnowsThisRoundsUpdates) {
  for (const bool stateful : {false, true}) {
    TinyJob job;
    job.sampler = "optimal";
    job.stateful = stateful;
    job.regret = true;
    const auto comm = make_single_communicator();
    TinyTraining training(*comm, job);
    for (int64_t round = 1; round <= 5; ++round) {
      const auto a = slow_a(training, round);
      double roots = 0;
      for (const double value : a) roots += std::sqrt(value);
      training.trainer->round(false);
      for (int64_t client = 0; client < kClients; ++client) {
        const double p = std::sqrt(a[static_cast<std::size_t>(client)]) / roots;
        EXPECT_NEAR(training.sampler->probability(client), p, 1e-9 * p);
      }
      const SamplingLine record = last_sampling_line(*training.trainer);
      EXPECT_NEAR(record.variance, roots * roots / 4, 1e-9 * roots * roots);
      EXPECT_NEAR(record.regret, 0, 1e-9 * roots * roots);
    }
  }
}

TEST(AllClientsFirst, AFailureNamesTheClientAndEndsTheRoundOnAllRanks) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const ServerRole role : {ServerRole::kShared, ServerRole::kDedicated}) {
      TinyJob job;
      job.sampler = "optimal";
      job.server.role = role;
      std::mutex mutex;
      std::vector<std::exception_ptr> failures;
      run_threads(ranks, [&](Communicator& comm) {
        TinyTraining training(comm, job);
        training.update->spoil = [](const ClientTask& task, ClientOutcome&) {
          if (task.client == 3 && task.round == 2) {
            task.row[0] = std::numeric_limits<float>::quiet_NaN();
          }
        };
        EXPECT_FALSE(training.trainer->round(false).failed);
        const auto row = training.trainer->model_row();
        const std::vector<float> before(row.begin(), row.end());
        const RoundRecord record = training.trainer->round(false);
        if (comm.rank() == 0) {
          EXPECT_TRUE(record.failed);
          EXPECT_EQ(std::vector<float>(row.begin(), row.end()), before);
        }
        const std::lock_guard lock(mutex);
        if (training.trainer->failure()) failures.push_back(training.trainer->failure());
      });
      ASSERT_EQ(failures.size(), 1U) << ranks << " ranks, " << name_of(role);
      expect_error<TrainingError>([&] { std::rethrow_exception(failures.front()); },
                                  {"client 3, round 2", "hint: "});
    }
  }
}

}  // namespace
}  // namespace hanse
