// Tasks of clients that go off line or never report, and what rounds tell of them.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/clock/round_clock.hpp"
#include "rules/clock/clock_tasks.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;

TEST(Tasks, OfClientsThatLeaveAreLostOrPauseOrAreFinished) {
  const std::vector<OnInterval> intervals{{0, 0, 10}, {0, 20, 26}, {0, 40, 45}};
  const auto on_line = make_periodic_on_line(2, 100, intervals);
  const TickTimes times({12, 12});
  const Tasks lose(times, *on_line, {}, LeaveRule::kLose);
  EXPECT_FALSE(lose.fate(0, 1, 3).arrives);
  EXPECT_EQ(lose.fate(0, 1, 3).known, 10);
  EXPECT_TRUE(lose.fate(1, 1, 3).arrives);
  EXPECT_EQ(lose.fate(1, 1, 3).known, 15);
  const Tasks finish(times, *on_line, {}, LeaveRule::kFinish);
  EXPECT_TRUE(finish.fate(0, 1, 3).arrives);
  EXPECT_EQ(finish.fate(0, 1, 3).known, 15);
  const Tasks pause(times, *on_line, {}, LeaveRule::kPause);
  EXPECT_EQ(pause.fate(0, 1, 3).known, 25);    // 7 ticks, then 5
  EXPECT_EQ(pause.fate(0, 1, 20).known, 101);  // 6, 5, and 1 of the next period
  EXPECT_TRUE(pause.fate(0, 1, 20).arrives);
}

TEST(Tasks, WhoGoesInTheTickOfTheArrivalHasGone) {
  const std::vector<OnInterval> intervals{{0, 0, 10}, {0, 20, 30}};
  const auto on_line = make_periodic_on_line(1, 100, intervals);
  const TickTimes times({6});
  EXPECT_FALSE(Tasks(times, *on_line, {}, LeaveRule::kLose).fate(0, 1, 4).arrives);
  EXPECT_TRUE(Tasks(times, *on_line, {}, LeaveRule::kLose).fate(0, 1, 3).arrives);
  EXPECT_EQ(Tasks(times, *on_line, {}, LeaveRule::kPause).fate(0, 1, 4).known, 20);
}

// Where work ends that pauses, tick by tick.
Ticks walked_end(const OnLine& on_line, int64_t client, Ticks t, Ticks work) {
  for (; work > 0; ++t) work -= on_line.is_on(client, t) ? 1 : 0;
  while (!on_line.is_on(client, t)) ++t;
  return t;
}

TEST(Tasks, ThatPauseEndWhereTheirTicksEnd) {
  const std::vector<OnInterval> intervals{{0, 0, 10},  {0, 20, 26}, {0, 40, 45},
                                          {1, 7, 100}, {2, 0, 3},   {2, 97, 100}};
  const std::unique_ptr<OnLine> all[] = {
      make_periodic_on_line(4, 100, intervals), make_markov_on_line(4, 5e-6, 3e-6, 7),
      make_diurnal_on_line(4, 13e-6, 0.4, 7), make_diurnal_on_line(4, 13e-6, 1, 7)};
  for (const auto& on_line : all) {
    for (int64_t client = 0; client < 4; ++client) {
      for (Ticks start = 0; start < 130; start += 3) {
        if (!on_line->is_on(client, start)) continue;
        for (const Ticks work : {1, 2, 5, 21, 22, 160}) {
          EXPECT_EQ(on_line->end_of_work(client, start, work),
                    walked_end(*on_line, client, start, work))
              << client << ' ' << start << ' ' << work;
        }
      }
    }
  }
}

// Ten years with a pause every minute and a half, or every second: the cost is not the square.
TEST(Tasks, OfYearsHaveMillionsOfPauses) {
  constexpr double kTenYears_s = 3.15e8;
  const TickTimes times({ticks_of(kTenYears_s)});
  const auto by_chance = make_markov_on_line(1, 60, 30, 2);
  const auto known = [&](const OnLine& on_line, Ticks start) {
    const Tasks tasks(times, on_line, {}, LeaveRule::kPause);
    return seconds_of(tasks.fate(0, 1, start).known);
  };
  EXPECT_NEAR(known(*by_chance, by_chance->next_on(0, 0)) / (1.5 * kTenYears_s), 1, 0.01);
  const std::vector<OnInterval> half{{0, 0, 500000}};
  EXPECT_EQ(known(*make_periodic_on_line(1, 1000000, half), 0), 2 * kTenYears_s);
}

TEST(Tasks, AreLostAsOftenAsTheirProbabilitySays) {
  const LostWork third(1 / 3.0, 4);
  const LostWork each({0, 1, 0.2}, 4);
  double lost = 0;
  std::vector<double> of_each(3);
  constexpr int64_t kNumbers = 30000;
  for (int64_t number = 1; number <= kNumbers; ++number) {
    lost += third.is_lost(number % 7, number);
    for (int64_t c = 0; c < 3; ++c) of_each[static_cast<std::size_t>(c)] += each.is_lost(c, number);
  }
  EXPECT_NEAR(lost / kNumbers, 1 / 3.0, 3 * std::sqrt(2 / 9.0 / kNumbers));
  EXPECT_EQ(of_each[0], 0);
  EXPECT_EQ(of_each[1], kNumbers);
  EXPECT_NEAR(of_each[2] / kNumbers, 0.2, 3 * std::sqrt(0.16 / kNumbers));
  EXPECT_TRUE(LostWork().never());
  EXPECT_FALSE(each.never());
}

TEST(Tasks, AreKnownToBeLostWhenTheyWouldArrive) {
  const auto on_line = make_always_on_line(1);
  const TickTimes times({6});
  const Fate fate = Tasks(times, *on_line, LostWork({1.0}, 1), LeaveRule::kLose).fate(0, 1, 4);
  EXPECT_FALSE(fate.arrives);
  EXPECT_EQ(fate.known, 10);
}

std::map<std::string, double> columns_of(const RoundClock& clock) {
  Columns columns;
  clock.add_columns(columns, 0.25);
  const Metrics round = columns.of_round(1), run = columns.of_run();
  std::map<std::string, double> all(round.begin(), round.end());
  all.insert(run.begin(), run.end());
  return all;
}

TEST(RoundColumns, TellWhoCountedAndWhatWasInVain) {
  const std::vector<OnInterval> intervals{{3, 0, 4000000}};
  const auto on_line = make_periodic_on_line(6, 1000000000, intervals);
  const TickTimes times({1000000, 2000000, 9000000, 6000000, 3000000, 5000000});
  const Tasks tasks(times, *on_line, {}, LeaveRule::kLose);
  RoundClock clock({.round = RoundEnd::kFirst, .server_seconds = 0.5}, 2, tasks, *on_line);
  clock.play(1, Ids{2, 0, 3, 1});  // 2 is late, 3 leaves after 4 s
  auto columns = columns_of(clock);
  EXPECT_EQ(columns["virtual_seconds"], 2.5);
  EXPECT_EQ(columns["round_virtual_seconds"], 2.5);
  EXPECT_EQ(columns["on_line"], 6);
  EXPECT_EQ(columns["drawn"], 4);
  EXPECT_EQ(columns["arrived"], 2);
  EXPECT_EQ(columns["counted"], 2);
  EXPECT_EQ(columns["late"], 1);
  EXPECT_EQ(columns["lost"], 1);
  EXPECT_EQ(columns["wasted_client_seconds"], 9 + 4);
  EXPECT_EQ(columns["wasted_bytes"], 100 + 10 + 100);
  EXPECT_EQ(columns["duration_p50"], 2);
  EXPECT_EQ(columns["duration_max"], 9);
  EXPECT_EQ(columns["unreachable_share"], 0.25);
  clock.play(2, Ids{0, 4});
  columns = columns_of(clock);
  EXPECT_EQ(columns["virtual_seconds"], 6);
  EXPECT_EQ(columns["late"], 0);
  EXPECT_EQ(columns["wasted_client_seconds"], 0);
  // counted 2, 1, 0, 0, 1, 0
  EXPECT_EQ(columns["participation_min"], 0);
  EXPECT_DOUBLE_EQ(columns["participation_entropy"], 1.5 * std::log(2.0));
  EXPECT_DOUBLE_EQ(columns["participation_gini"], (5 * 2 + 3 * 1 + 1 * 1) / (6 * 4.0));
}

TEST(RoundColumns, HaveTheirNamesBeforeTheFirstRound) {
  const auto on_line = make_always_on_line(2);
  const TickTimes times({1, 1});
  const Tasks tasks(times, *on_line, {}, LeaveRule::kLose);
  RoundClock clock({}, 2, tasks, *on_line);
  Columns columns;
  clock.add_columns(columns);
  const auto names = [&](int64_t round) {
    std::vector<std::string> all;
    for (const auto& [name, value] : columns.of_round(round)) all.push_back(name);
    return all;
  };
  const auto before = names(0);
  clock.play(1, Ids{0});
  EXPECT_EQ(names(1), before);
  EXPECT_EQ(columns.of_client(0)[0].second, 1);
  EXPECT_EQ(columns.of_client(2)[0].second, 0);  // held out
}

}  // namespace
}  // namespace hanse
