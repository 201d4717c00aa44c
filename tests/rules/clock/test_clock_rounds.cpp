// Who of the drawn clients counts, when rounds end, and what it costs on average.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/clock/round_clock.hpp"
#include "rules/clock/clock_tasks.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;

// Rounds of clients with these durations, in ticks.
struct Rounds {
  Rounds(const ClockOptions& options, int64_t per_round, std::vector<Ticks> durations,
         std::unique_ptr<OnLine> online = nullptr)
      : times(std::move(durations)),
        on_line(online ? std::move(online) : make_always_on_line(times.clients())),
        tasks(times, *on_line, LostWork(options.lost.probability, 1), options.leave),
        clock(options, per_round, tasks, *on_line) {}

  TickTimes times;
  std::unique_ptr<OnLine> on_line;
  Tasks tasks;
  RoundClock clock;
};

// The durations of `times` parts of a second.
ClockOptions ending(RoundEnd end, double deadline_s = 1, LateRule late = LateRule::kDrop) {
  return {.round = end, .deadline = {.seconds = deadline_s}, .late = late};
}

TEST(RoundClock, WaitsForAllForTheFirstOrForTheDeadline) {
  const std::vector<Ticks> durations{40, 10, 30, 20};
  const Ids drawn{3, 0, 2};
  Rounds all(ending(RoundEnd::kAll), 2, durations);
  EXPECT_EQ(all.clock.play(1, drawn).counted, (Ids{0, 1, 2}));
  EXPECT_EQ(all.clock.last().end, 40);
  Rounds first(ending(RoundEnd::kFirst), 2, durations);
  EXPECT_EQ(first.clock.play(1, drawn).counted, (Ids{0, 2}));
  EXPECT_EQ(first.clock.last().late, (Ids{1}));
  EXPECT_EQ(first.clock.last().known, (Ids{20, 40, 30}));
  EXPECT_EQ(first.clock.last().end, 30);
  EXPECT_EQ(first.clock.play(2, Ids{1, 0, 3}).counted, (Ids{0, 2}));
  EXPECT_EQ(first.clock.last().start, 30);
  EXPECT_EQ(first.clock.last().known, (Ids{40, 70, 50}));
  EXPECT_EQ(first.clock.now(), 50);
  Rounds deadline(ending(RoundEnd::kDeadline, 30e-6), 2, durations);
  EXPECT_EQ(deadline.clock.play(1, drawn).counted, (Ids{0, 2}));  // 30 is in time
  EXPECT_EQ(deadline.clock.last().end, 30);
  EXPECT_EQ(deadline.clock.play(2, Ids{1, 3}).end, 50);  // nobody is waited for
}

TEST(RoundClock, TakesTheSmallerIdOfThoseThatArriveTogether) {
  Rounds first(ending(RoundEnd::kFirst), 2, {5, 5, 5, 5});
  EXPECT_EQ(first.clock.play(1, Ids{3, 2, 0, 1}).counted, (Ids{2, 3}));
  EXPECT_EQ(first.clock.last().end, 5);
  const auto columns = [&] {
    Columns added;
    first.clock.add_columns(added);
    return added.of_round(1);
  };
  EXPECT_EQ(columns()[4], (std::pair<std::string, double>{"arrived", 4}));
  EXPECT_EQ(columns()[5], (std::pair<std::string, double>{"counted", 2}));
}

TEST(RoundClock, WithTheFirstOfAsManyAsCountIsWithAll) {
  ClockOptions options = ending(RoundEnd::kAll);
  options.over_select = 1;
  options.lost.probability = 0.3;
  std::vector<Ticks> durations;
  for (Ticks i = 0; i < 50; ++i) durations.push_back(1 + i * i % 37);
  Rounds all(options, 10, durations);
  options.round = RoundEnd::kFirst;
  Rounds first(options, 10, durations);
  options.round = RoundEnd::kDeadline;
  Rounds deadline(options, 10, durations);  // far off
  for (int64_t round = 1; round <= 100; ++round) {
    Ids drawn(10);
    std::iota(drawn.begin(), drawn.end(), round % 40);
    EXPECT_EQ(all.clock.to_draw(50), 10);
    const RoundTimes& times = all.clock.play(round, drawn);
    for (Rounds* other : {&first, &deadline}) {
      EXPECT_EQ(other->clock.play(round, drawn).counted, times.counted);
      EXPECT_EQ(other->clock.last().lost, times.lost);
      EXPECT_EQ(other->clock.last().known, times.known);
      EXPECT_EQ(other->clock.now(), all.clock.now());
    }
  }
}

TEST(RoundClock, BelowTheFastestTimeEveryRoundIsADeadlineOfNobody) {
  Rounds rounds(ending(RoundEnd::kDeadline, 9e-6), 2, {10, 20, 30});
  for (int64_t round = 1; round <= 50; ++round) {
    EXPECT_TRUE(rounds.clock.play(round, Ids{0, 2}).counted.empty());
  }
  EXPECT_EQ(rounds.clock.now(), 450);
}

TEST(RoundClock, DeadlinesByQuantileAreTheTimeOfThatShareOfClients) {
  std::vector<Ticks> durations(30);
  std::iota(durations.rbegin(), durations.rend(), 1);
  for (const auto& [p, ticks] : {std::pair{0.1, 3}, {0.5, 15}, {1.0, 30}, {0.01, 1}}) {
    ClockOptions options = ending(RoundEnd::kDeadline);
    options.deadline.quantile = p;
    EXPECT_EQ(Rounds(options, 2, durations).clock.deadline(), ticks) << p;
  }
}

TEST(RoundClock, PartialWorkIsTheMostThatFits) {
  for (const Ticks deadline : {11, 30, 57, 58, 1000}) {
    Rounds rounds(
        ending(RoundEnd::kDeadline, 1e-6 * static_cast<double>(deadline), LateRule::kPartial), 2,
        {7, 20, 3});
    rounds.times.steps_of_all = 8;
    Ids drawn{2, 0, 1};
    const RoundTimes& times = rounds.clock.play(1, drawn);
    const auto takes = [&](int64_t client, int64_t steps) {
      return rounds.times.phases(client, 1, steps).total();
    };
    std::size_t counted = 0;
    for (int64_t place = 0; place < 3; ++place) {
      const int64_t client = drawn[static_cast<std::size_t>(place)];
      if (takes(client, 1) > deadline) {
        EXPECT_TRUE(std::count(times.late.begin(), times.late.end(), place)) << deadline;
        continue;
      }
      ASSERT_EQ(times.counted.at(counted), place);
      const int64_t steps = times.steps[counted++];
      EXPECT_NE(steps, 8) << "all of a task is 0";
      EXPECT_LE(takes(client, steps == 0 ? 8 : steps), deadline);
      if (steps > 0) {
        EXPECT_GT(takes(client, steps + 1), deadline);
      }
    }
    EXPECT_EQ(counted, times.counted.size());
  }
}

TEST(RoundClock, TimeGoesOnWhenNobodyIsThereAndWhileTheServerWorks) {
  ClockOptions options = ending(RoundEnd::kAll);
  options.empty_seconds = 3;
  options.server_seconds = 0.5;
  Rounds rounds(options, 1, {1000000});
  EXPECT_EQ(rounds.clock.play(1, Ids{}).end, 3000000);
  EXPECT_EQ(rounds.clock.now(), 3000000);
  EXPECT_EQ(rounds.clock.play(2, Ids{0}).end, 4000000);
  EXPECT_EQ(rounds.clock.now(), 4500000);
}

TEST(RoundClock, ARoundOfNobodyEndsWhenSomebodyComes) {
  ClockOptions options = ending(RoundEnd::kAll);
  options.empty_seconds = 10;
  const std::vector<OnInterval> intervals{{0, 3000000, 7000000}, {1, 14000000, 15000000}};
  Rounds rounds(options, 1, {500000, 500000}, make_periodic_on_line(2, 40000000, intervals));
  const auto next = [&](const Ids& drawn) {
    rounds.clock.changes();
    return rounds.clock.play(1, drawn).end;
  };
  EXPECT_EQ(next({}), 3000000);
  EXPECT_EQ(next({0}), 3500000);
  EXPECT_EQ(next({}), 13500000);  // client 0 is there
  EXPECT_EQ(next({}), 14000000);
  EXPECT_EQ(next({1}), 14500000);
  EXPECT_EQ(next({1}), 15000000);  // it goes as its work ends
  for (const Ticks end : {25000000, 35000000, 43000000}) EXPECT_EQ(next({}), end);
}

TEST(RoundClock, DrawsMoreThanCount) {
  ClockOptions options = ending(RoundEnd::kFirst);
  options.over_select = 1.1;
  Rounds rounds(options, 50, std::vector<Ticks>(60, 1));
  EXPECT_EQ(rounds.clock.to_draw(60), 55);
  EXPECT_EQ(rounds.clock.to_draw(40), 40);
  EXPECT_EQ(rounds.clock.to_draw(0), 0);
}

TEST(RoundClock, LateWorkIsCarriedToTheRoundInWhichItArrives) {
  Rounds rounds(ending(RoundEnd::kDeadline, 10e-6, LateRule::kCarry), 3, {5, 12, 25, 10});
  EXPECT_TRUE(rounds.clock.changes().empty());
  EXPECT_EQ(rounds.clock.play(1, Ids{2, 0, 1}, std::vector{1.5, 1.0, 2.5}).counted, Ids{1});
  EXPECT_EQ(rounds.clock.last().late, (Ids{0, 2}));
  EXPECT_EQ(rounds.clock.changes(), (Ids{1, 2}));  // they have work to do
  EXPECT_EQ(rounds.clock.play(2, Ids{3}).counted, Ids{0});
  ASSERT_EQ(rounds.clock.last().carried.size(), 1U);
  const CarriedTask& task = rounds.clock.last().carried[0];
  EXPECT_EQ(task.client, 1);
  EXPECT_EQ(task.round, 1);
  EXPECT_EQ(task.place, 2);
  EXPECT_EQ(task.weight, 2.5);
  EXPECT_EQ(task.known, 12);
  EXPECT_EQ(task.staleness, 1);
  EXPECT_EQ(rounds.clock.changes(), Ids{1});
  EXPECT_EQ(rounds.clock.play(3, Ids{0}).end, 25);
  EXPECT_EQ(rounds.clock.last().carried.at(0).staleness, 2);
  EXPECT_EQ(rounds.clock.changes(), Ids{2});
  EXPECT_EQ(std::vector(rounds.clock.counted().begin(), rounds.clock.counted().end()),
            (Ids{2, 1, 1, 1}));
}

TEST(RoundClock, GoesOnFromItsState) {
  const auto make = [] {
    return std::make_unique<Rounds>(ending(RoundEnd::kDeadline, 10e-6, LateRule::kCarry), 3,
                                    std::vector<Ticks>{5, 12, 25, 10, 33, 7},
                                    make_markov_on_line(6, 30e-6, 10e-6, 4));
  };
  const auto play = [](RoundClock& clock, std::vector<bool>& there, int64_t round) {
    for (const int64_t client : clock.changes()) there[static_cast<std::size_t>(client)].flip();
    Ids drawn;
    for (int64_t c = 5; c >= 0; --c) {
      if (there[static_cast<std::size_t>(c)] && std::ssize(drawn) < 3) drawn.push_back(c);
    }
    return clock.play(round, drawn);
  };
  const auto whole = make();
  const auto used = make();  // has played other rounds, and is loaded again and again
  std::vector<bool> there(6, true);
  for (int64_t round = 1; round <= 60; ++round) {
    State state;
    whole->clock.save(state);
    const auto resumed = make();
    resumed->clock.load(state);
    EXPECT_EQ(resumed->on_line->on_line(), whole->on_line->on_line());
    std::vector<bool> resumed_there(6, true);
    const RoundTimes expected = play(whole->clock, there, round);
    const RoundTimes times = play(resumed->clock, resumed_there, round);
    used->clock.load(state);
    std::vector<bool> used_there(6, true);
    EXPECT_EQ(play(used->clock, used_there, round).end, times.end);
    EXPECT_EQ(used_there, there);
    EXPECT_EQ(resumed_there, there);
    EXPECT_EQ(times.counted, expected.counted);
    EXPECT_EQ(times.lost, expected.lost);
    EXPECT_EQ(times.end, expected.end);
    ASSERT_EQ(times.carried.size(), expected.carried.size());
    for (std::size_t i = 0; i < times.carried.size(); ++i) {
      EXPECT_EQ(times.carried[i].client, expected.carried[i].client);
      EXPECT_EQ(times.carried[i].staleness, expected.carried[i].staleness);
    }
  }
}

// The mean time of a round whose clients are drawn anew from a distribution, over so many rounds
// that each of them can have clients of its own.
double mean_round_s(const std::string& distribution, RoundEnd end, int64_t n, int64_t k) {
  constexpr int64_t kRounds = 10000;
  ClockOptions options = ending(end);
  options.sample_seconds = 1;
  options.speed = Distribution::parse(distribution);
  const std::vector<int64_t> samples(static_cast<std::size_t>(n * kRounds), 1);
  const ProfiledTimes times(
      ClientProfiles(options, samples, 7),
      {.steps = [](int64_t) { return 1; }, .samples = [](int64_t, int64_t) { return 1; }});
  const auto on_line = make_always_on_line(n * kRounds);
  const Tasks tasks(times, *on_line, {}, LeaveRule::kLose);
  RoundClock clock(options, k, tasks, *on_line);
  Ids drawn(static_cast<std::size_t>(n));
  for (int64_t round = 1; round <= kRounds; ++round) {
    std::iota(drawn.begin(), drawn.end(), n * (round - 1));
    clock.play(round, drawn);
  }
  return seconds_of(clock.now()) / kRounds;
}

TEST(RoundClock, HasTheMeanTimesOfOrderStatistics) {
  double all = 0, variance_all = 0, first = 0, variance_first = 0;
  for (int i = 1; i <= 10; ++i) all += 1.0 / i, variance_all += 1.0 / (i * i);
  for (int i = 4; i <= 13; ++i) first += 1.0 / i, variance_first += 1.0 / (i * i);
  EXPECT_NEAR(all, 2.928968, 1e-6);
  EXPECT_NEAR(first, 1.346801, 1e-6);
  const double waiting = mean_round_s("exponential(1)", RoundEnd::kAll, 10, 10);
  const double over = mean_round_s("exponential(1)", RoundEnd::kFirst, 13, 10);
  EXPECT_NEAR(waiting, all, 3 * std::sqrt(variance_all) / 100);
  EXPECT_NEAR(over, first, 3 * std::sqrt(variance_first) / 100);
  EXPECT_NEAR(mean_round_s("uniform(1,3)", RoundEnd::kAll, 10, 10), 1 + 2 * 10.0 / 11,
              3 * 2 * std::sqrt(10 / (121.0 * 12)) / 100);
  EXPECT_NEAR(mean_round_s("pareto(3,2)", RoundEnd::kAll, 1, 1), 3, 3 * std::sqrt(3.0) / 100);
}

}  // namespace
}  // namespace hanse
