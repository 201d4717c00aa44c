// What participation.csv has of the participants of a round.
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "protocol/timed_turnout.hpp"
#include "protocol/tiny_training.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// Client i counts (i + 1)/8.
class ByName final : public Aggregator {
 public:
  Mix mix(const RoundReport& report) override {
    Mix mix;
    for (const int64_t client : report.clients) {
      mix.coefficients.push_back(static_cast<double>(client + 1) / 8);
    }
    return mix;
  }
};

TinyJob everybody() {
  TinyJob job;
  job.sampler = "full";
  job.participation = true;
  job.own_rule = [] { return std::make_unique<ByName>(); };
  return job;
}

constexpr const char* kHeader =
    "round,client,weight,samples,steps,seconds,received,staleness,counted";

std::vector<std::string> lines_of(FederatedTrainer& trainer, const std::string& more = "") {
  std::vector<std::string> found;
  for (const TableLines& table : trainer.take_lines()) {
    if (table.file != "participation.csv") continue;
    EXPECT_EQ(table.header, kHeader + more);
    std::istringstream lines(table.lines);
    for (std::string line; std::getline(lines, line);) found.push_back(line);
  }
  return found;
}

// Client i is i % 2 rounds behind, from the second round on, and takes i + round/2 seconds.
WorkTimes times_of(int64_t round, const Draw& draw) {
  WorkTimes times;
  for (const int64_t client : draw.clients) {
    times.staleness.push_back(round > 1 ? client % 2 : 0);
    times.durations.push_back(static_cast<double>(client) + 0.5 * static_cast<double>(round));
  }
  return times;
}

TEST(ParticipationLines, StandInTheDrawsOrderOnAnyNumberOfRanks) {
  TinyJob job = everybody();
  job.turnout = [] { return std::make_unique<TimedTurnout>(times_of); };
  job.async.staleness = StalenessKind::kConstant;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      TinyTraining training(comm, job);
      for (int64_t round = 1; round <= 2; ++round) {
        training.trainer->round(false);
        const auto lines = lines_of(*training.trainer, ",state,start,arrival");
        ASSERT_EQ(lines.size(), comm.rank() == 0 ? kClients : 0);
        for (int64_t i = 0; i < std::ssize(lines); ++i) {
          const int64_t behind = round > 1 ? i % 2 : 0;
          const int64_t samples = training.federation.train(i).size();
          EXPECT_EQ(lines[static_cast<std::size_t>(i)],
                    fmt::format("{},{},{},{},{},{},{},{},1,counted,,", round, i,
                                static_cast<double>(i + 1) / 8, samples,
                                training.update->steps().optimizer_steps(samples),
                                static_cast<double>(i) + 0.5 * static_cast<double>(round),
                                round - 1 - behind, behind));
        }
      }
    });
  }
}

// Who counts, and tasks that did not, with what is known of them.
class Fates final : public Turnout {
 public:
  RoundTurnout next(int64_t round, const DrawClients& draw) override {
    RoundTurnout turnout{.draw = draw.draw_round()};
    const Ticks start = 1'000'000 * round;
    turnout.spans.assign(turnout.draw.size(), {start, start + 500'000});
    turnout.uncounted = {
        {.client = 2, .state = TaskState::kLate, .span = {start, start + 1}, .received = 0},
        {.client = 1, .state = TaskState::kLost, .span = {0, start}, .received = 0},
        {.client = 3,
         .state = TaskState::kDiscarded,
         .span = {500'000, 2'250'000},
         .received = 0,
         .staleness = 4}};
    return turnout;
  }
  double seconds() const override { return 0; }
};

TEST(ParticipationLines, TellOfTasksThatDidNotCount) {
  TinyJob job = everybody();
  job.turnout = [] { return std::make_unique<Fates>(); };
  const auto comm = make_single_communicator();
  TinyTraining training(*comm, job);
  training.trainer->round(false);
  const auto lines = lines_of(*training.trainer, ",state,start,arrival");
  const auto samples = [&](int64_t client) { return training.federation.train(client).size(); };
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(kClients) + 3);
  EXPECT_TRUE(lines[kClients - 1].ends_with(",0,0,1,counted,1,1.5")) << lines[kClients - 1];
  EXPECT_EQ(lines[kClients], fmt::format("1,2,0,{},,1e-06,0,,0,late,1,1.000001", samples(2)));
  EXPECT_EQ(lines[kClients + 1], fmt::format("1,1,0,{},,,0,,0,lost,0,1", samples(1)));
  EXPECT_EQ(lines[kClients + 2],
            fmt::format("1,3,0,{},,1.75,0,4,0,discarded,0.5,2.25", samples(3)));
}

TEST(ParticipationLines, AreNotKeptUnlessAskedFor) {
  TinyJob job = everybody();
  job.participation = false;
  const auto comm = make_single_communicator();
  TinyTraining training(*comm, job);
  training.trainer->round(false);
  EXPECT_TRUE(lines_of(*training.trainer).empty());
}

struct Ticks final : Clock {
  double now_s() const override { return 0.25 * quarters; }
  int quarters = 0;
};

// Without a virtual clock the seconds are those of the training; with a limit, three clients are
// through before time is up.
TEST(ParticipationLines, SayWhatWasMeasuredAndWhoWasLeftOut) {
  Ticks ticks;
  TinyJob job = everybody();
  job.clock = &ticks;
  job.round_seconds = 1;
  const auto comm = make_single_communicator();
  TinyTraining training(*comm, job);
  training.update->spoil = [&](const ClientTask&, ClientOutcome&) { ++ticks.quarters; };
  training.trainer->round(false);
  const auto lines = lines_of(*training.trainer);
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(kClients));
  int64_t counted = 0;
  for (int64_t i = 0; i < kClients; ++i) {
    const int64_t samples = training.federation.train(i).size();
    const std::string& line = lines[static_cast<std::size_t>(i)];
    const std::string left_out = fmt::format("1,{},0,{},,,,,0", i, samples);
    if (line == left_out) continue;
    ++counted;
    EXPECT_EQ(line, fmt::format("1,{},{},{},{},0.25,0,0,1", i, static_cast<double>(i + 1) / 8,
                                samples, training.update->steps().optimizer_steps(samples)));
  }
  EXPECT_EQ(counted, 3);
}

TEST(ParticipationLines, CountTheStepsOfStragglers) {
  ClientOptions options;
  options.batch = 2;
  options.epochs = 4;
  options.stragglers = 1;
  options.accumulate = 3;
  const RoundSteps steps(options);
  bool fewer = false;
  for (int64_t client = 0; client < 20; ++client) {
    const ClientTask task{.client = client, .round = 2, .seed = 5};
    const int64_t batches = steps_of_task(options, task, 7);  // 4 a pass
    EXPECT_EQ(steps.optimizer_steps(task, 7), (batches + 2) / 3);
    fewer = fewer || batches < 16;
  }
  EXPECT_TRUE(fewer);
}

}  // namespace
}  // namespace hanse
