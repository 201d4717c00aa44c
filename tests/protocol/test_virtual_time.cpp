// Rounds on the virtual clock: against rounds without one, one client after another, and the same
// bits for every way to spread the work.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/clock/inclusion.hpp"
#include "hanse/rules/clock/staleness.hpp"
#include "protocol/resume.hpp"
#include "protocol/tiny_training.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kRounds = 7;

// A turnout with the clock that it refers to.
class OwnClock final : public Turnout {
 public:
  using Make = std::function<std::unique_ptr<Turnout>(const Tasks&, OnLine&)>;
  OwnClock(std::vector<double> seconds, const Make& make)
      : times_(seconds),
        on_line_(make_always_on_line(kClients)),
        tasks_(times_, *on_line_, LostWork(), LeaveRule::kLose),
        turnout_(make(tasks_, *on_line_)) {}

  std::vector<int64_t> begin() override { return turnout_->begin(); }
  RoundTurnout next(int64_t round, const DrawClients& draw) override {
    return turnout_->next(round, draw);
  }
  double seconds() const override { return turnout_->seconds(); }
  void add_columns(Columns& columns) const override { turnout_->add_columns(columns); }

 private:
  void visit(StateFields& fields) override { fields.same(*turnout_); }

  GivenTimes times_;
  std::unique_ptr<OnLine> on_line_;
  Tasks tasks_;
  std::unique_ptr<Turnout> turnout_;
};

std::vector<double> equal_seconds() { return std::vector<double>(kClients, 2.0); }

// Client i takes 1 + i seconds, the even ones twice as long.
std::vector<double> unequal_seconds() {
  std::vector<double> seconds;
  for (int64_t i = 0; i < kClients; ++i) seconds.push_back(double((1 + i) * (i % 2 == 0 ? 2 : 1)));
  return seconds;
}

ClockOptions clock_options(RoundEnd round, LateRule late = LateRule::kDrop, double deadline = 60) {
  ClockOptions options{.kind = "virtual", .round = round, .late = late};
  options.deadline.seconds = deadline;
  return options;
}

// The job with synchronous rounds on the clock, of which K count.
TinyJob timed(TinyJob job, const ClockOptions& options, const std::vector<double>& seconds,
              int64_t k, Estimator estimator = Estimator::kNormalized) {
  job.timed = options.round == RoundEnd::kDeadline && options.late != LateRule::kDrop;
  job.async.normalize = BufferNorm::kWeights;
  job.turnout = [=] {
    return std::make_unique<OwnClock>(seconds, [&](const Tasks& tasks, OnLine& on_line) {
      CountedWeights weights{.estimator = estimator};
      if (estimator == Estimator::kArrival) {
        weights.inclusion =
            inclusion_probabilities(tasks.times().of_all(kClients), job.per_round, k);
      }
      return make_timed_turnout(options, k, tasks, on_line, std::move(weights));
    });
  };
  return job;
}

// The job with asynchronous rounds.
TinyJob buffered(TinyJob job, const AsyncOptions& options, const std::vector<double>& seconds) {
  job.timed = true;
  job.async = options;
  job.per_round = options.concurrency;
  job.turnout = [=] {
    return std::make_unique<OwnClock>(seconds, [&](const Tasks& tasks, OnLine& on_line) {
      return make_buffered_turnout(options, 10, tasks, on_line, {});
    });
  };
  return job;
}

AsyncOptions fedbuff(int64_t concurrency, int64_t buffer) {
  return {.kind = "fedbuff", .concurrency = concurrency, .buffer = buffer};
}

std::vector<TinyJob> plain_jobs() {
  std::vector<TinyJob> jobs(6);
  jobs[1].sampler = "weighted";
  jobs[1].replacement = false;
  jobs[2].sampler = "full";
  jobs[2].per_round = kClients;
  jobs[2].stateful = true;
  jobs[3].server.optimizer = "momentum";
  jobs[4].server.optimizer = "adam";
  jobs[5].sampler = "adaptive-osmd";
  jobs[5].replacement = false;
  return jobs;
}

TEST(VirtualTime, AClockThatWaitsForAllChangesNothing) {
  for (const TinyJob& job : plain_jobs()) {
    const auto expected = train_threads(1, job, kRounds);
    const auto options = clock_options(RoundEnd::kAll);
    EXPECT_EQ(train_threads(2, timed(job, options, unequal_seconds(), job.per_round), kRounds),
              expected)
        << job.sampler << ' ' << job.server.optimizer;
  }
}

TEST(VirtualTime, ABufferOfOneDrawIsAverageRound) {
  for (const TinyJob& job : plain_jobs()) {
    const auto expected = train_threads(1, job, kRounds);
    for (const auto normalize : {BufferNorm::kBuffer, BufferNorm::kWeights}) {
      AsyncOptions options = fedbuff(job.per_round, job.per_round);
      options.normalize = normalize;
      EXPECT_EQ(train_threads(2, buffered(job, options, equal_seconds()), kRounds), expected)
          << job.sampler << ' ' << job.server.optimizer;
      options.open_slots = job.per_round;
      EXPECT_EQ(train_threads(2, buffered(job, options, unequal_seconds()), kRounds), expected)
          << job.sampler << ' ' << job.server.optimizer << " with slots that open together";
    }
  }
}

std::vector<TinyJob> timed_jobs() {
  TinyJob drawn;
  drawn.per_round = 6;
  drawn.replacement = false;
  TinyJob by_feedback = drawn;
  by_feedback.sampler = "adaptive-osmd";
  TinyJob remembering = drawn;
  remembering.stateful = true;
  TinyJob by_losses = drawn;
  by_losses.by_losses = true;
  AsyncOptions options = fedbuff(6, 3);
  AsyncOptions one{.kind = "fedasync", .concurrency = 5, .buffer = 1};
  AsyncOptions same = fedbuff(5, 4);
  same.next = NextClient::kSame;
  std::vector<TinyJob> jobs;
  for (const TinyJob& job : {drawn, by_feedback, remembering, by_losses}) {
    jobs.push_back(timed(job, clock_options(RoundEnd::kFirst), unequal_seconds(), 4));
    jobs.push_back(buffered(job, options, unequal_seconds()));
    jobs.push_back(buffered(job, same, unequal_seconds()));
  }
  jobs.push_back(buffered(drawn, one, unequal_seconds()));
  jobs.push_back(
      timed(drawn, clock_options(RoundEnd::kFirst), unequal_seconds(), 4, Estimator::kArrival));
  jobs.push_back(
      timed(drawn, clock_options(RoundEnd::kDeadline, LateRule::kCarry, 7), unequal_seconds(), 6));
  jobs.push_back(
      timed(drawn, clock_options(RoundEnd::kDeadline, LateRule::kDrop, 7), unequal_seconds(), 6));
  return jobs;
}

TEST(VirtualTime, BitsAndTimesAreTheSameOnAnyRanks) {
  std::size_t number = 0;
  for (const TinyJob& job : timed_jobs()) {
    std::vector<float> expected;
    std::vector<double> seconds;
    for (const int ranks : {1, 2, 3, 4}) {
      run_threads(ranks, [&](Communicator& comm) {
        TinyTraining training(comm, job);
        std::vector<double> times;
        for (int64_t round = 0; round < kRounds; ++round) {
          times.push_back(training.trainer->round(false).virtual_seconds);
        }
        if (comm.rank() != 0) return;
        const auto row = training.trainer->model_row();
        if (ranks == 1) {
          expected.assign(row.begin(), row.end());
          seconds = times;
        }
        EXPECT_EQ(std::vector<float>(row.begin(), row.end()), expected) << "job " << number;
        EXPECT_EQ(times, seconds) << "job " << number;
      });
    }
    ++number;
  }
}

TEST(VirtualTime, GoesOnFromAnyVersion) {
  std::size_t number = 0;
  for (const TinyJob& job : timed_jobs()) {
    const auto expected = train_threads(1, job, kRounds);
    for (int64_t stop = 1; stop < kRounds; stop += 2) {
      const Kept kept = train_and_keep<TinyTraining>(2, job, stop);
      EXPECT_EQ(go_on<TinyTraining>(3, job, kept, kRounds - stop), expected)
          << "job " << number << " from round " << stop;
    }
    ++number;
  }
}

// By it, training costs nothing: ranks have time for all the tasks ahead that they have rows for.
class StoppedClock final : public Clock {
 public:
  double now_s() const override { return 0; }
};

TEST(VirtualTime, ARankThatWouldWaitTrainsAhead) {
  const StoppedClock clock;
  TinyJob job;
  job.clock = &clock;
  job.replacement = false;
  std::vector<float> expected;
  for (const int64_t ahead : {0, 1}) {
    AsyncOptions options = fedbuff(6, 3);
    options.ahead = ahead;
    std::atomic<int64_t> trained = 0;
    run_threads(2, [&](Communicator& comm) {
      TinyTraining training(comm, buffered(job, options, unequal_seconds()));
      training.update->spoil = [&](const ClientTask&, ClientOutcome&) { ++trained; };
      for (int64_t round = 0; round < kRounds; ++round) training.trainer->round(false);
      if (comm.rank() != 0) return;
      const auto row = training.trainer->model_row();
      if (ahead == 0) expected.assign(row.begin(), row.end());
      EXPECT_EQ(std::vector<float>(row.begin(), row.end()), expected);
    });
    const int64_t more = trained - 3 * kRounds;  // whose versions are still to come
    EXPECT_TRUE(ahead == 0 ? more == 0 : more >= 1 && more <= 4) << more;
  }
}

// FedAsync with alpha = 1 and one task at a time: client after client, each from the last one's
// model.
TEST(VirtualTime, OneTaskAtATimeIsSequentialTraining) {
  TinyJob job{.replacement = false, .trace = true};
  const AsyncOptions options{.kind = "fedasync",
                             .concurrency = 1,
                             .buffer = 1,
                             .staleness = StalenessKind::kConstant,
                             .mixing = 1};
  const auto comm = make_single_communicator();
  TinyTraining training(*comm, buffered(job, options, unequal_seconds()));
  TinyUpdate update(false);
  std::vector<float> row(kParams);
  RandomStream initial(kSeed, Purpose::kInitialize);
  TinyModel().initialize(row, initial);
  for (int64_t round = 1; round <= kRounds; ++round) {
    training.trainer->round(false);
    const int64_t client = training.trainer->trace().draw.clients.front();
    update.train({.client = client, .round = round, .seed = kSeed, .row = row});
    for (std::size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(training.trainer->model_row()[i], row[i], 1e-6) << round;
    }
  }
}

}  // namespace
}  // namespace hanse
