// What a round tells, and how it fails and goes on.
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/client/evaluator.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "protocol/resume.hpp"
#include "protocol/tiny_training.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(RoundRecord, CountsRoundsAndParticipants) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_threads(ranks, [](Communicator& comm) {
      TinyTraining training(comm, {});
      for (int64_t round = 1; round <= 2; ++round) {
        const RoundRecord record = training.trainer->round(false);
        EXPECT_EQ(record.round, round);
        EXPECT_FALSE(record.failed);
        if (comm.rank() != 0) continue;
        EXPECT_EQ(record.participants, 4);
        EXPECT_GE(record.seconds, record.train_s);
      }
    });
  }
}

// Whatever the ranks send each other: asked for work, a client's state on its way, losses.
TEST(RoundRecord, CountsWhatEveryRankSends) {
  std::vector<TinyJob> jobs(8);
  jobs[0].apart = true;  // rank 0 hands out work by messages
  jobs[0].server.role = ServerRole::kDedicated;
  jobs[1] = jobs[0];
  jobs[1].by_losses = true;
  jobs[2].stateful = true;
  jobs[3] = jobs[2];
  jobs[3].server.role = ServerRole::kDedicated;
  jobs[4].sampler = "optimal";  // asks all clients before each draw
  jobs[5].comm.reduction = Reduction::kFast;
  jobs[6] = jobs[5];
  jobs[6].by_losses = true;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        TinyTraining training(comm, jobs[j]);
        for (int64_t round = 1; round <= 6; ++round) {
          const int64_t before = comm.bytes_moved();
          const RoundRecord record = training.trainer->round(false);
          int64_t sent = comm.bytes_moved() - before;
          comm.reduce(std::span(&sent, 1), ReduceOp::kSum, 0);
          if (comm.rank() == 0) {
            EXPECT_EQ(record.bytes_sent, sent) << "job " << j << ", round " << round;
            EXPECT_EQ(sent > 0, ranks > 1);
          }
          training.trainer->evaluate();  // is nobody's round
        }
      });
    }
  }
}

TEST(RoundRecord, AnyRanksFlagStops) {
  for (int flagged = -1; flagged < 3; ++flagged) {
    run_threads(3, [&](Communicator& comm) {
      TinyTraining training(comm, {});
      const RoundRecord record = training.trainer->round(comm.rank() == flagged);
      EXPECT_TRUE(comm.rank() != 0 || record.stop_requested == (flagged >= 0));
    });
  }
}

// Keeps what it observes.
class RecordingSampler final : public ClientSampler {
 public:
  RecordingSampler() : ClientSampler(kClients, 5) {}
  Draw draw(int64_t round, int64_t n, RandomStream& stream) override {
    return inner_->draw(round, n, stream);
  }
  void observe(const Draw& draw, const Feedback& feedback) override {
    clients = draw.clients;
    a.assign(feedback.a.begin(), feedback.a.end());
    losses.assign(feedback.losses.begin(), feedback.losses.end());
    squares.assign(feedback.squares.begin(), feedback.squares.end());
    sizes.assign(feedback.sizes.begin(), feedback.sizes.end());
  }
  bool needs_candidates() const override { return !asked.empty(); }
  std::vector<int64_t> candidates(int64_t, int64_t, RandomStream&) override { return asked; }
  void take_candidates(std::span<const int64_t> named, std::span<const double> values) override {
    EXPECT_EQ(std::vector<int64_t>(named.begin(), named.end()), asked);
    of_asked.assign(values.begin(), values.end());
  }
  Draw impose(int64_t n, std::span<const int64_t> draws) override {
    return inner_->impose(n, draws);
  }
  double probability(int64_t client) const override { return inner_->probability(client); }
  const ClientSet& available() const override { return inner_->available(); }
  void toggle(std::span<const int64_t> changed) override { inner_->toggle(changed); }

  std::vector<int64_t> clients;
  std::vector<double> a;
  std::vector<double> losses;
  std::vector<double> squares, sizes;
  std::vector<int64_t> asked;    // its candidates
  std::vector<double> of_asked;  // their losses

 private:
  std::unique_ptr<ClientSampler> inner_ = make_uniform_sampler(kClients, 5);
};

TEST(RoundRecord, SamplerIsToldLossesOfItsCandidatesBeforeTheDraw) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      TinyTraining training(comm, {});
      training.settings.max_participants = 5;
      training.settings.squares = true;
      auto recording = std::make_unique<RecordingSampler>();
      recording->asked = {7, 0, 3};
      training.sampler = std::move(recording);
      training.start();
      FederatedTrainer& trainer = *training.trainer;
      for (int64_t round = 1; round <= 3; ++round) {
        const auto model = trainer.model_row();
        const std::vector<float> before(model.begin(), model.end());
        trainer.round(false);
        EXPECT_EQ(trainer.failure(), nullptr);
        if (comm.rank() != 0) continue;
        const auto& sampler = dynamic_cast<RecordingSampler&>(*training.sampler);
        RowEvaluator evaluator(training.federation, *training.model);
        for (std::size_t i = 0; i < 3; ++i) {
          const SampleRange range = training.federation.train(sampler.asked[i]);
          const double sum = evaluator.at(before).range(range).loss;
          EXPECT_DOUBLE_EQ(sampler.of_asked[i], sum / static_cast<double>(range.size()));
        }
        EXPECT_EQ(sampler.sizes, std::vector<double>(5, 1.0));
        for (std::size_t k = 0; k < 5; ++k) {
          EXPECT_EQ(sampler.squares[k], sampler.losses[k] * sampler.losses[k]);
        }
      }
    });
  }
}

// a_i = lambda_i^2 |theta_i - theta|^2/(lr^2 B) with the default job's B steps of lr.
TEST(RoundRecord, SamplerObservesFeedbackAndLossesInDrawOrder) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      TinyTraining training(comm, {});
      training.settings.max_participants = 5;
      training.sampler = std::make_unique<RecordingSampler>();
      training.start();
      FederatedTrainer& trainer = *training.trainer;
      for (int64_t round = 1; round <= 3; ++round) {  // later rounds: planned by measured cost
        const auto model = trainer.model_row();
        const std::vector<float> before(model.begin(), model.end());
        const RoundRecord record = trainer.round(false);
        if (comm.rank() != 0) continue;
        const auto& sampler = dynamic_cast<RecordingSampler&>(*training.sampler);
        double mean = 0;
        for (std::size_t k = 0; k < 5; ++k) {
          std::vector<float> row = before;
          const auto outcome = TinyUpdate(false).train(
              {.client = sampler.clients[k], .round = round, .seed = kSeed, .row = row});
          double squared = 0;
          for (std::size_t i = 0; i < row.size(); ++i) {
            squared += std::pow(static_cast<double>(row[i]) - static_cast<double>(before[i]), 2);
          }
          const int64_t n = training.federation.train(sampler.clients[k]).size();
          const double lambda =
              static_cast<double>(n) / static_cast<double>(training.federation.train_samples());
          const double steps = std::ceil(static_cast<double>(n) / 20);
          const double a = lambda * lambda * squared / (0.01 * steps);
          EXPECT_NEAR(sampler.a[k], a, 1e-12 * a);
          EXPECT_EQ(sampler.losses[k], outcome.loss);
          mean += outcome.loss / 5;
        }
        EXPECT_NEAR(record.loss, mean, 1e-12);
      }
    });
  }
}

#if defined(__x86_64__)

// Where they would cost a hundred operations each; rules see them.
TEST(Subnormals, AreZeroToTrainingAndEvaluation) {
  static volatile float tiny = 1e-40F;
  static const auto kept = [] { return tiny * 2 > 0; };
  const auto comm = make_single_communicator();
  TinyTraining training(*comm, {});
  int trained = 0, evaluated = 0;
  training.update->spoil = [&](const ClientTask&, ClientOutcome&) {
    EXPECT_FALSE(kept());
    ++trained;
  };
  training.model->at_evaluation = [&] {
    EXPECT_FALSE(kept());
    ++evaluated;
  };
  EXPECT_FALSE(training.trainer->round(false).failed);
  EXPECT_TRUE(kept());
  RowEvaluator evaluator(training.federation, *training.model);
  evaluator.at(training.trainer->model_row()).range({0, 7});
  EXPECT_TRUE(kept());
  const std::vector<int32_t> order{2, 1};
  evaluator.chosen(0, order);
  EXPECT_TRUE(kept());
  EXPECT_GT(trained, 0);
  EXPECT_EQ(evaluated, 3);  // five samples at most, two, and two
}

#endif

// Rank 2's first client takes until all others have been trained: then it must have been its only
// one, or the round would never end.
TEST(SlowRank, HoldsARoundNoLongerThanItsOwnClient) {
  for (const bool apart : {false, true}) {
    TinyJob job;
    job.sampler = "full";
    job.apart = apart;
    for (const ServerRole role : {ServerRole::kShared, ServerRole::kDedicated}) {
      if (apart && role == ServerRole::kShared) continue;  // nobody is free to hand out work
      job.server.role = role;
      std::mutex mutex;
      std::condition_variable changed;
      std::vector<int> trained(3);
      run_threads(3, [&](Communicator& comm) {
        TinyTraining training(comm, job);
        training.update->spoil = [&](const ClientTask&, ClientOutcome&) {
          std::unique_lock lock(mutex);
          ++trained[static_cast<std::size_t>(comm.rank())];
          changed.notify_all();
          const auto others_are_done = [&] { return trained[0] + trained[1] == kClients - 1; };
          const auto it_has_begun = [&] { return trained[2] > 0; };
          if (comm.rank() == 2) {
            changed.wait_for(lock, std::chrono::seconds(5), others_are_done);
          } else {
            changed.wait_for(lock, std::chrono::seconds(5), it_has_begun);
          }
        };
        training.trainer->round(false);
      });
      EXPECT_EQ(trained[2], 1) << name_of(role) << (apart ? ", several hosts" : "");
    }
  }
}

thread_local double rank_s = 0;  // a rank's time, which passes while it trains

struct RankClock final : Clock {
  double now_s() const override { return rank_s; }
};

// Where the schedule is planned, the clock tells who is slow: a rank on which everything takes
// twenty times as long has few clients, or none, from the third round on, and as many as the others
// when that is over. Its clients' states go with them; the bits are those of one rank.
TEST(SlowRank, GetsLessWhereTheScheduleIsPlanned) {
  constexpr int kRounds = 40;
  std::vector<TinyJob> jobs(3);
  jobs[0].comm.dispatch = AskedDispatch::kPlanned;
  jobs[1].comm.reduction = Reduction::kFast;
  jobs[2].stateful = true;
  for (TinyJob& job : jobs) {
    job.sampler = "full";
    const RankClock clock;
    job.clock = &clock;
    const auto alone = train_threads(1, job, kRounds);
    std::vector<int> had(kRounds + 1);  // of the slow rank, in each round
    run_threads(3, [&](Communicator& comm) {
      rank_s = 0;
      TinyTraining training(comm, job);
      training.update->spoil = [&](const ClientTask& task, ClientOutcome&) {
        const bool slow = comm.rank() == 2 && task.round <= kRounds / 2;
        rank_s += slow ? 0.2 : 0.01;
        if (comm.rank() == 2) ++had[static_cast<std::size_t>(task.round)];
      };
      for (int round = 0; round < kRounds; ++round) training.trainer->round(false);
      if (comm.rank() != 0 || job.comm.reduction == Reduction::kFast) return;
      const auto row = training.trainer->model_row();
      EXPECT_EQ(std::vector<float>(row.begin(), row.end()), alone);
    });
    EXPECT_GE(had[1], 3);
    for (int round = 4; round <= kRounds / 2; ++round) {
      EXPECT_LE(had[static_cast<std::size_t>(round)], 1) << "round " << round;
    }
    EXPECT_GE(had[kRounds], 3);
  }
}

// A time in whole microseconds, which passes as it is told.
struct Ticks final : Clock {
  double now_s() const override { return 1e-6 * static_cast<double>(now); }
  int64_t now = 0;
};

TEST(Rounds, GoByTheClockThatTheyAreGiven) {
  Ticks ticks;
  TinyJob job;
  job.sampler = "full";
  job.clock = &ticks;
  const auto comm = make_single_communicator();
  for (const double limit_s : {0.0, 1.0}) {
    job.round_seconds = limit_s;
    TinyTraining training(*comm, job);
    training.update->spoil = [&](const ClientTask&, ClientOutcome&) { ticks.now += 250'000; };
    ticks.now = 3'000'000;
    const RoundRecord record = training.trainer->round(false);
    // With the limit four clients start: at 0, 1/4, 1/2 and 3/4 of a second.
    const int64_t trained = limit_s > 0 ? 4 : kClients;
    EXPECT_EQ(ticks.now, 3'000'000 + 250'000 * trained);
    EXPECT_DOUBLE_EQ(record.seconds, 0.25 * static_cast<double>(trained));
  }
}

// Client 3 is spoilt in round 2 of full participation: the round fails, the model stays, and one
// rank can say why.
void expect_failure(const std::function<void(const ClientTask&, ClientOutcome&)>& spoil,
                    std::initializer_list<std::string> parts) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const ServerRole role : {ServerRole::kShared, ServerRole::kDedicated}) {
      TinyJob job;
      job.sampler = "full";
      job.server.role = role;
      const auto before = train_threads(ranks, job, 1);
      std::mutex mutex;
      std::vector<std::exception_ptr> failures;
      run_threads(ranks, [&](Communicator& comm) {
        TinyTraining training(comm, job);
        training.update->spoil = [&](const ClientTask& task, ClientOutcome& outcome) {
          if (task.client == 3 && task.round == 2) spoil(task, outcome);
        };
        EXPECT_FALSE(training.trainer->round(false).failed);
        const RoundRecord record = training.trainer->round(false);
        if (comm.rank() == 0) {
          EXPECT_TRUE(record.failed);
          const auto row = training.trainer->model_row();
          EXPECT_EQ(std::vector<float>(row.begin(), row.end()), before);
        }
        const std::lock_guard lock(mutex);
        if (training.trainer->failure()) failures.push_back(training.trainer->failure());
      });
      ASSERT_EQ(failures.size(), 1U) << ranks << " ranks, " << name_of(role);
      expect_error<std::runtime_error>([&] { std::rethrow_exception(failures.front()); }, parts);
    }
  }
}

TEST(RoundFailure, NamesClientAndRound) {
  expect_failure([](const ClientTask& task, ClientOutcome&) { task.row[18] = kNan; },
                 {"client 3, round 2", "hint: "});
  expect_failure([](const ClientTask& task, ClientOutcome&) { task.row[0] = -1 / 0.0F; },
                 {"client 3, round 2"});
  expect_failure([](const ClientTask& task, ClientOutcome&) { task.row[7] = 1e9F; },
                 {"client 3, round 2"});
  for (const float loss : {kNan, -kNan}) {
    expect_failure([loss](const ClientTask&, ClientOutcome& outcome) { outcome.loss = loss; },
                   {"its loss is nan", "client 3, round 2"});
  }
  expect_failure([](const ClientTask&, ClientOutcome&) { throw std::runtime_error("no batch"); },
                 {"no batch (client 3, round 2)"});
  expect_failure([](const ClientTask&, ClientOutcome&) { throw InvalidArgument("no token"); },
                 {"no token (client 3, round 2)"});
}

TEST(RoundFailure, ALossThatIsNotFiniteNamesClientAndRound) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    TinyJob job;
    job.sampler = "full";
    job.by_losses = true;
    std::mutex mutex;
    std::vector<std::exception_ptr> failures;
    run_threads(ranks, [&](Communicator& comm) {
      TinyTraining training(comm, job);
      const auto row = training.trainer->model_row();
      const std::vector<float> before(row.begin(), row.end());
      const int64_t sample = training.federation.train(5).begin;
      std::vector<float> x(3);
      training.federation.copy({sample, sample + 1}, x.data());
      training.model->broken_feature = x[0];
      const RoundRecord record = training.trainer->round(false);
      if (comm.rank() == 0) {
        EXPECT_TRUE(record.failed);
        EXPECT_EQ(std::vector<float>(row.begin(), row.end()), before);
      }
      const std::lock_guard lock(mutex);
      if (training.trainer->failure()) failures.push_back(training.trainer->failure());
    });
    ASSERT_EQ(failures.size(), 1U) << ranks << " ranks";
    expect_error<TrainingError>([&] { std::rethrow_exception(failures.front()); },
                                {"client 5, round 1"});
  }
}

TEST(Resume, GoesOnWithTheSameBitsOnAnyNumberOfRanks) {
  TinyJob job;
  job.stateful = true;
  job.server = {.optimizer = "momentum", .lr = 0.7, .beta = 0.6};
  for (const ServerRole role : {ServerRole::kShared, ServerRole::kDedicated}) {
    job.server.role = role;
    const auto straight = train_threads(1, job, 7);
    for (int before = 1; before <= 4; ++before) {
      const Kept kept = train_and_keep<TinyTraining>(before, job, 3);
      EXPECT_GT(kept.clients.size(), 4U);
      for (int after = 1; after <= 4; ++after) {
        EXPECT_EQ(go_on<TinyTraining>(after, job, kept, 4), straight)
            << before << " to " << after << " ranks";
      }
    }
  }
}

TEST(Resume, EveryClientHasOneKeeper) {
  for (const ServerRole role : {ServerRole::kShared, ServerRole::kDedicated}) {
    TinyJob job;
    job.server.role = role;
    run_threads(3, [&](Communicator& comm) {
      const TinyTraining training(comm, job);
      for (int64_t client = 0; client < kClients; ++client) {
        const int64_t keeps = training.trainer->keeps_state_of(client);
        EXPECT_EQ(comm.allreduce_one(keeps, ReduceOp::kSum), 1);
        EXPECT_FALSE(keeps && comm.rank() == 0 && role == ServerRole::kDedicated);
      }
    });
  }
}

}  // namespace
}  // namespace hanse
