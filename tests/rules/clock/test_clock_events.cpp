// Which tasks arrive when, and which make each version: against a table, closed forms and resumes.
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/clock/buffered_events.hpp"
#include "hanse/rules/clock/report.hpp"
#include "hanse/rules/sampling/sampler.hpp"
#include "rules/clock/clock_tasks.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;
using Members = std::vector<std::tuple<int64_t, int64_t, int64_t>>;  // client, received, staleness

Members members_of(const BufferedVersion& version) {
  Members members;
  for (const BufferedTask& task : version.members) {
    members.emplace_back(task.client, task.received, task.staleness);
  }
  return members;
}

// Draws those that the test says, or the next ones in turn, and checks that they are there.
class Turns final : public Dispatcher {
 public:
  explicit Turns(int64_t clients) : there(clients) {}

  void toggle(std::span<const int64_t> clients) override {
    EXPECT_EQ(std::set<int64_t>(clients.begin(), clients.end()).size(), clients.size());
    for (const int64_t client : clients) there.toggle(client);
  }
  Dispatched draw(int64_t call, int64_t n) override {
    EXPECT_LE(n, there.size());
    Dispatched drawn;
    for (int64_t c = call; std::ssize(drawn.clients) < n; ++c) {  // a function of the call alone
      const int64_t client = c % there.clients();
      if (there.contains(client)) drawn.clients.push_back(client);
    }
    if (draws) drawn.clients = draws->at(static_cast<std::size_t>(call - 1));
    for (const int64_t client : drawn.clients) {
      EXPECT_TRUE(there.contains(client)) << client;
      drawn.weights.push_back(static_cast<double>(call) + 0.5 * static_cast<double>(client));
    }
    EXPECT_EQ(std::ssize(drawn.clients), n);
    return drawn;
  }

  ClientSet there;
  const std::vector<Ids>* draws = nullptr;
};

struct Events {
  Events(const AsyncOptions& options, std::vector<Ticks> durations, double lost = 0,
         std::unique_ptr<OnLine> online = nullptr, LeaveRule leave = LeaveRule::kLose)
      : times(std::move(durations)),
        on_line(online ? std::move(online) : make_always_on_line(times.clients())),
        tasks(times, *on_line, LostWork(lost, 3), leave),
        turns(times.clients()),
        events(options, 5e-6, tasks, *on_line, turns) {}

  TickTimes times;
  std::unique_ptr<OnLine> on_line;
  Tasks tasks;
  Turns turns;
  BufferedEvents events;
};

AsyncOptions buffered(int64_t concurrency, int64_t buffer) {
  return {.kind = "fedbuff", .concurrency = concurrency, .buffer = buffer};
}

TEST(BufferedEvents, FollowTheTable) {
  const std::vector<Ids> draws{{0, 1, 2}, {3}, {0}, {1, 2}, {0}, {1}, {2, 3}, {0}, {1}, {2}};
  Events run(buffered(3, 2), {2, 3, 5, 7});
  run.turns.draws = &draws;
  const std::vector<std::tuple<Ticks, int64_t, Members>> table{
      {3, 1, {{0, 0, 0}, {1, 0, 0}}},  {5, 2, {{2, 0, 1}, {0, 1, 0}}},
      {9, 3, {{1, 2, 0}, {3, 0, 2}}},  {10, 4, {{2, 2, 1}, {0, 2, 1}}},
      {14, 5, {{1, 3, 1}, {0, 4, 0}}}, {17, 6, {{2, 4, 1}, {3, 4, 1}}}};
  for (const auto& [tick, number, members] : table) {
    const BufferedVersion& version = run.events.next();
    EXPECT_EQ(version.tick, tick);
    EXPECT_EQ(version.number, number);
    EXPECT_EQ(members_of(version), members);
  }
  EXPECT_EQ(run.events.now(), 17);
  EXPECT_EQ(run.events.calls(), 10);
}

TEST(BufferedEvents, OfEqualClientsAreRoundsInTheOrderOfTheirDraws) {
  Events run(buffered(4, 4), std::vector<Ticks>(12, 10));
  for (int64_t round = 1; round <= 30; ++round) {
    const BufferedVersion& version = run.events.next();
    EXPECT_EQ(version.tick, 10 * round);
    for (std::size_t place = 0; place < 4; ++place) {
      const BufferedTask& task = version.members[place];
      EXPECT_EQ(task.client, (round + static_cast<int64_t>(place)) % 12);
      EXPECT_EQ(task.call, round);
      EXPECT_EQ(task.place, static_cast<int64_t>(place));
      EXPECT_EQ(task.received + 1, round);
      EXPECT_EQ(task.repeats, 0);
      EXPECT_EQ(task.weight, static_cast<double>(round) + 0.5 * static_cast<double>(task.client));
      EXPECT_EQ(task.staleness, 0);
    }
  }
}

TEST(BufferedEvents, OfEqualClientsHaveTheStalenessOfTheirPlaceInATick) {
  Events run(buffered(30, 10), std::vector<Ticks>(50, 7));
  for (int64_t number = 1; number <= 60; ++number) {
    const BufferedVersion& version = run.events.next();
    EXPECT_EQ(version.tick, 7 * ((number + 2) / 3));
    for (const BufferedTask& task : version.members) EXPECT_EQ(task.staleness, (number - 1) % 3);
    EXPECT_EQ(version.in_flight_mean, 30);
  }
}

TEST(BufferedEvents, ThrowTooStaleUpdatesAway) {
  AsyncOptions options = buffered(30, 10);
  options.max_staleness = 1;
  Events run(options, std::vector<Ticks>(50, 7));
  for (int64_t number = 1; number <= 40; ++number) {
    const BufferedVersion& version = run.events.next();
    EXPECT_EQ(version.tick, 7 * ((number + 1) / 2));
    for (const BufferedTask& task : version.members) EXPECT_EQ(task.staleness, (number - 1) % 2);
    EXPECT_EQ(version.discarded, number > 1 && number % 2 == 1 ? 10 : 0);
    EXPECT_EQ(std::ssize(version.fallen), version.discarded);
    for (const BufferedTask& task : version.fallen) EXPECT_EQ(task.staleness, 2);
  }
}

std::vector<Ticks> uneven(int64_t clients) {
  std::vector<Ticks> durations;
  for (int64_t i = 0; i < clients; ++i) durations.push_back(3 + i * i * 7 % 41);
  return durations;
}

TEST(BufferedEvents, KeepAllSlotsBusy) {
  Events run(buffered(8, 3), uneven(40));
  Ticks work = 0, now = 0;
  for (int64_t number = 1; number <= 500; ++number) {
    const BufferedVersion& version = run.events.next();
    EXPECT_DOUBLE_EQ(version.in_flight_mean, 8);
    now = version.tick;
    for (const BufferedTask& task : version.members) work += task.known - task.start;
  }
  for (const BufferedTask& task : run.events.buffered()) work += task.known - task.start;
  for (const BufferedTask& task : run.events.in_flight()) work += now - task.start;
  EXPECT_EQ(work, 8 * now);
}

TEST(BufferedEvents, WaitForSoManyOpenSlots) {
  AsyncOptions options = buffered(6, 6);
  options.open_slots = 6;
  const auto durations = uneven(20);
  Events run(options, durations);
  for (int64_t number = 1; number <= 50; ++number) {  // as synchronous rounds
    const BufferedVersion& version = run.events.next();
    Ticks longest = 0;
    for (const BufferedTask& task : version.members) {
      EXPECT_EQ(task.staleness, 0);
      EXPECT_EQ(task.call, number);
      longest = std::max(longest, durations[static_cast<std::size_t>(task.client)]);
    }
    EXPECT_EQ(version.duration, longest);
  }
}

TEST(BufferedEvents, KnowWhichVersionsAreNeeded) {
  Events run(buffered(8, 3), uneven(40));
  for (int64_t number = 1; number <= 200; ++number) {
    run.events.next();
    std::map<int64_t, int64_t> needed;
    for (const BufferedTask& task : run.events.buffered()) ++needed[task.received];
    for (const BufferedTask& task : run.events.in_flight()) ++needed[task.received];
    EXPECT_EQ(run.events.versions_needed(), needed);
  }
}

TEST(BufferedEvents, CountTheDispatchesOfAClientAtOneVersion) {
  Events run(buffered(2, 5), {1, 10});
  const BufferedVersion& version = run.events.next();
  Ids repeats;
  for (const BufferedTask& task : version.members) repeats.push_back(task.repeats);
  EXPECT_EQ(repeats, (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(version.members[2].received, 0);
  EXPECT_EQ(run.events.next().members[0].repeats, 0);
}

TEST(BufferedEvents, OfTheSameClientsGoOnWithThoseOfTheFirstDraw) {
  AsyncOptions options = buffered(4, 2);
  options.next = NextClient::kSame;
  const auto durations = uneven(20);
  Events run(options, durations);
  Ids arrivals(20);
  for (int64_t number = 1; number <= 400; ++number) {
    for (const BufferedTask& task : run.events.next().members) {
      ++arrivals[static_cast<std::size_t>(task.client)];
      EXPECT_EQ(task.weight, 1 + 0.5 * static_cast<double>(task.client));  // of the first draw
    }
  }
  for (int64_t client = 0; client < 20; ++client) {
    const auto i = static_cast<std::size_t>(client);
    const bool drawn = client >= 1 && client <= 4;
    const double expected = drawn ? static_cast<double>(run.events.now() / durations[i]) : 0;
    EXPECT_NEAR(static_cast<double>(arrivals[i]), expected, 1) << client;
  }
}

TEST(BufferedEvents, OfTheSameClientsWaitForThoseThatAreAway) {
  AsyncOptions options = buffered(4, 2);
  options.next = NextClient::kSame;
  Events run(options, uneven(20), 0, make_markov_on_line(20, 60e-6, 30e-6, 2));
  std::set<int64_t> seen;
  for (int64_t number = 1; number <= 300; ++number) {
    for (const BufferedTask& task : run.events.next().members) seen.insert(task.client);
    for (const BufferedTask& task : run.events.in_flight()) seen.insert(task.client);
  }
  EXPECT_EQ(seen.size(), 4U);
}

TEST(BufferedEvents, OfLostTasksOpenASlotAndNothingElse) {
  Events run(buffered(5, 3), uneven(12), 0.4);
  int64_t lost = 0, arrived = 0;
  for (int64_t number = 1; number <= 400; ++number) {
    const BufferedVersion& version = run.events.next();
    for (const BufferedTask& task : version.members) EXPECT_TRUE(task.arrives);
    EXPECT_EQ(std::ssize(version.fallen), version.lost);
    for (const BufferedTask& task : version.fallen) EXPECT_FALSE(task.arrives);
    lost += version.lost;
    arrived += std::ssize(version.members);
    EXPECT_DOUBLE_EQ(version.in_flight_mean, 5);
  }
  EXPECT_NEAR(static_cast<double>(lost) / static_cast<double>(lost + arrived), 0.4, 0.04);
}

// A look is 5 ticks, and who is there between two of them is seen.
TEST(BufferedEvents, BeginWhenTheFirstComes) {
  const std::vector<OnInterval> intervals{{0, 3, 6}, {1, 21, 23}};
  Events any(buffered(1, 1), {1, 1}, 0, make_periodic_on_line(2, 40, intervals));
  for (const Ticks tick : {4, 5, 22, 44, 45}) EXPECT_EQ(any.events.next().tick, tick);
  AsyncOptions options = buffered(1, 1);
  options.next = NextClient::kSame;
  Events same(options, {1, 1}, 0, make_periodic_on_line(2, 40, intervals));
  for (const Ticks tick : {4, 5, 44, 45, 84}) EXPECT_EQ(same.events.next().tick, tick);
}

TEST(BufferedEvents, OfNobodySayThatNothingComes) {
  const std::vector<OnInterval> intervals{{0, 3, 4}};
  Events never(buffered(1, 1), {1}, 0, make_periodic_on_line(1, 5, intervals));  // it always goes
  expect_error<InvalidArgument>([&] { never.events.next(); }, {"all lost"});
  Events barren(buffered(1, 1), {2}, 1);
  expect_error<InvalidArgument>([&] { barren.events.next(); }, {"all lost"});
}

struct Setting {
  const char* name;
  AsyncOptions options;
  double lost = 0;
  bool come_and_go = false;
};

class Resumes : public testing::TestWithParam<Setting> {};

std::string setting_name(const testing::TestParamInfo<Setting>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(
    Settings, Resumes,
    testing::Values(
        Setting{"plain", buffered(7, 3)}, Setting{"lost", buffered(7, 3), 0.3},
        Setting{"markov", buffered(7, 3), 0.1, true},
        Setting{"same",
                {.kind = "fedbuff", .concurrency = 6, .buffer = 4, .next = NextClient::kSame},
                0,
                true},
        Setting{"stale",
                {.kind = "fedbuff",
                 .concurrency = 9,
                 .buffer = 2,
                 .max_staleness = 2,
                 .open_slots = 3}},
        Setting{"ticks", buffered(12, 2), 0, true}, Setting{"single", {.kind = "fedasync"}}),
    setting_name);

std::unique_ptr<Events> make(const Setting& setting) {
  const bool equal = std::string(setting.name) == "ticks";  // several versions in a tick
  auto on_line = setting.come_and_go ? make_markov_on_line(25, 60e-6, 30e-6, 2) : nullptr;
  return std::make_unique<Events>(setting.options, equal ? std::vector<Ticks>(25, 6) : uneven(25),
                                  setting.lost, std::move(on_line));
}

// All that a version is.
using Whole = std::tuple<int64_t, Ticks, Ticks, int64_t, int64_t, int64_t, double,
                         std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t, double, Ticks,
                                                Ticks, int64_t, int64_t>>>;

Whole whole_of(const BufferedVersion& version) {
  Whole whole{version.number, version.tick,    version.duration,       version.discarded,
              version.lost,   version.on_line, version.in_flight_mean, {}};
  for (const BufferedTask& task : version.members) {
    std::get<7>(whole).emplace_back(task.client, task.received, task.call, task.place, task.weight,
                                    task.start, task.known, task.repeats, task.staleness);
  }
  return whole;
}

TEST_P(Resumes, GoOnFromEveryVersion) {
  constexpr std::size_t kVersions = 70;
  const auto run = make(GetParam());
  std::vector<State> states(kVersions);  // before each version
  std::vector<Whole> versions;
  std::vector<std::map<int64_t, int64_t>> needed;
  for (State& state : states) {
    run->events.save(state);
    needed.push_back(run->events.versions_needed());
    versions.push_back(whole_of(run->events.next()));
  }
  for (std::size_t at = 0; at < kVersions; ++at) {
    const auto resumed = make(GetParam());
    resumed->events.load(states[at]);
    EXPECT_EQ(resumed->events.versions_needed(), needed[at]);
    for (std::size_t v = at; v < std::min(at + 12, kVersions); ++v) {
      State again;
      resumed->events.save(again);
      EXPECT_EQ(again.arrays(), states[v].arrays()) << at << " " << v;
      ASSERT_EQ(whole_of(resumed->events.next()), versions[v]) << at << " " << v;
    }
  }
  run->events.load(states[20]);
  run->turns.there = ClientSet(25);
  for (std::size_t v = 20; v < kVersions; ++v) {
    ASSERT_EQ(whole_of(run->events.next()), versions[v]) << v;
  }
}

TEST(BufferedReport, CountsUpdatesAndTheirStaleness) {
  BufferedReport report(4);
  Columns columns;
  report.add_columns(columns);
  BufferedVersion version{.number = 1, .tick = 2500000, .duration = 500000, .discarded = 3};
  for (const auto& [client, tau] : {std::pair{0, 0}, {2, 1}, {0, 3}, {3, 2000}}) {
    version.members.push_back({.client = client, .staleness = tau});
  }
  report.add(version, 3);
  State state;
  report.save(state);
  BufferedReport resumed(4);
  Columns again;
  resumed.add_columns(again);
  resumed.load(state);
  EXPECT_EQ(again.of_run(), columns.of_run());
  const Metrics round = columns.of_round(1), run = columns.of_run();
  std::map<std::string, double> all(round.begin(), round.end());
  all.insert(run.begin(), run.end());
  EXPECT_EQ(all["virtual_seconds"], 2.5);
  EXPECT_EQ(all["round_virtual_seconds"], 0.5);
  EXPECT_EQ(all["staleness_mean"], 501);
  EXPECT_EQ(all["staleness_max"], 2000);
  EXPECT_EQ(all["discarded"], 3);
  EXPECT_EQ(all["versions_kept"], 3);
  EXPECT_EQ(all["staleness_0"], 1);
  EXPECT_EQ(all["staleness_1"], 1);
  EXPECT_EQ(all["staleness_2"], 1);
  EXPECT_EQ(all["staleness_4"], 0);
  EXPECT_EQ(all["staleness_1024"], 1);
  EXPECT_EQ(columns.of_client(0)[0].second, 2);
  EXPECT_EQ(all["participation_min"], 0);
}

}  // namespace
}  // namespace hanse
