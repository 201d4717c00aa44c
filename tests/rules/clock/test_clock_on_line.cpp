// Who is on line at a time, against a walk through all intervals from the beginning.
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/rules/clock/on_line.hpp"

namespace hanse {
namespace {

constexpr int64_t kClients = 40;
constexpr Ticks kSecond = 1000000;

std::vector<OnInterval> intervals() {
  std::vector<OnInterval> all;
  for (int64_t client = 0; client < kClients; client += 2) {  // odd ones are always there
    for (Ticks on = client % 7 * kSecond / 3; on < 30 * kSecond; on += (2 + client) * kSecond) {
      all.push_back({client, on, on + kSecond});
    }
  }
  return all;
}

struct Case {
  const char* name;
  std::unique_ptr<OnLine> (*make)();
};

const Case kCases[] = {
    {"always", [] { return make_always_on_line(kClients); }},
    {"markov", [] { return make_markov_on_line(kClients, 3, 6, 5); }},
    {"diurnal", [] { return make_diurnal_on_line(kClients, 24, 0.3, 5); }},
    {"file", [] { return make_periodic_on_line(kClients, 31 * kSecond, intervals()); }}};

class OnLines : public testing::TestWithParam<Case> {};

std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Kinds, OnLines, testing::ValuesIn(kCases), name_of_case);

// Rounds that are long beside the intervals: whoever walks one interval a question loses its place.
TEST_P(OnLines, HaveAtEachTimeTheStateOfAWalkFromTheStart) {
  for (const Ticks round : {kSecond / 7, 3 * kSecond, 1000 * kSecond}) {
    const auto on_line = GetParam().make();
    const auto walked = GetParam().make();  // asked about times from 0 on, in no leaps
    std::vector<bool> there(kClients, true);
    std::vector<Ticks> at(kClients, 0);  // of the walk's last change
    const Ticks end = round > 100 * kSecond ? 2 * round : 20 * round;
    for (Ticks now = 0; now <= end; now += round) {
      const auto changed = on_line->changes(now);
      EXPECT_EQ(std::set<int64_t>(changed.begin(), changed.end()).size(), changed.size());
      for (const int64_t client : changed) there[static_cast<std::size_t>(client)].flip();
      int64_t count = 0;
      for (int64_t client = 0; client < kClients; ++client) {
        Ticks& t = at[static_cast<std::size_t>(client)];
        while (walked->next_change(client, t) <= now) t = walked->next_change(client, t);
        const bool on = walked->is_on(client, t);
        ASSERT_EQ(on_line->is_on(client, now), on) << client << " at " << now;
        ASSERT_EQ(there[static_cast<std::size_t>(client)], on) << client << " at " << now;
        ASSERT_EQ(on_line->next_change(client, now), walked->next_change(client, t));
        count += on;
      }
      EXPECT_EQ(on_line->on_line(), count);
    }
  }
}

TEST_P(OnLines, ChangeAtTheTickThatTheyTell) {
  const auto on_line = GetParam().make();
  for (int64_t client = 0; client < kClients; ++client) {
    Ticks t = 0;
    for (int change = 0; change < 50; ++change) {
      const bool on = on_line->is_on(client, t);
      const Ticks next = on_line->next_change(client, t);
      if (next == kNever) break;
      ASSERT_GT(next, t);
      EXPECT_EQ(on_line->is_on(client, next - 1), on);
      EXPECT_NE(on_line->is_on(client, next), on);
      EXPECT_EQ(on_line->next_on(client, t), on ? t : next);
      if (on) {
        EXPECT_EQ(on_line->next_off(client, t), next);
      }
      t = next;
    }
  }
}

TEST_P(OnLines, GoOnFromTheirState) {
  const auto on_line = GetParam().make();
  for (Ticks now = 0; now < 200 * kSecond; now += 7 * kSecond) on_line->changes(now);
  State state;
  on_line->save(state);
  const auto resumed = GetParam().make();
  resumed->load(state);
  std::vector<bool> there(kClients, true), resumed_there(kClients, true);
  for (int64_t client = 0; client < kClients; ++client) {
    there[static_cast<std::size_t>(client)] = on_line->is_on(client, 200 * kSecond);
  }
  on_line->changes(200 * kSecond);
  for (Ticks now = 200 * kSecond; now < 300 * kSecond; now += 3 * kSecond) {
    for (const int64_t c : on_line->changes(now)) there[static_cast<std::size_t>(c)].flip();
    for (const int64_t c : resumed->changes(now)) {
      resumed_there[static_cast<std::size_t>(c)].flip();
    }
    EXPECT_EQ(resumed_there, there);
    EXPECT_EQ(resumed->on_line(), on_line->on_line());
  }
}

TEST(OnLine, MarkovIsOnForTheShareOfItsMeans) {
  constexpr int64_t kMany = 20000;
  const auto on_line = make_markov_on_line(kMany, 3, 1, 8);
  for (const Ticks now : {Ticks{0}, 5 * kSecond, 500 * kSecond}) {
    on_line->changes(now);
    const double share = static_cast<double>(on_line->on_line()) / kMany;
    EXPECT_NEAR(share, 0.75, 3 * std::sqrt(0.75 * 0.25 / kMany)) << now;
  }
}

TEST(OnLine, MarkovDrawsItsIntervalsFromStreamsOfTheirNumbers) {
  const auto on_line = make_markov_on_line(3, 10, 2, 6);
  const bool began_on = RandomStream(6, Purpose::kOnOff, 0, 2).uniform() < 10.0 / 12;
  EXPECT_EQ(on_line->is_on(2, 0), began_on);
  Ticks end = 0;
  for (uint64_t k = 1; k < 5; ++k) {
    const double mean = began_on == (k % 2 == 1) ? 10 : 2;
    end += ticks_of(-mean * std::log(1 - RandomStream(6, Purpose::kOnOff, k, 2).uniform()));
    EXPECT_EQ(on_line->next_change(2, end - 1), end);
  }
}

TEST(OnLine, DiurnalClientsAreThereForTheirShareOfEveryPeriod) {
  const auto on_line = make_diurnal_on_line(200, 10, 0.25, 4);
  for (int64_t client = 0; client < 200; ++client) {
    const double phase =
        RandomStream(4, Purpose::kOnOff, 0, static_cast<uint64_t>(client)).uniform();
    const Ticks at = static_cast<Ticks>(phase * 1e7);
    const Ticks off = on_line->is_on(client, 0) ? on_line->next_off(client, 0)
                                                : on_line->next_off(client, 10 * kSecond - at);
    EXPECT_EQ((off + at) % (10 * kSecond), 2500000);
    EXPECT_EQ(on_line->next_change(client, off) - off, 7500000);
  }
  EXPECT_EQ(make_diurnal_on_line(2, 10, 1, 4)->next_off(1, 77), kNever);
}

TEST(OnLine, IntervalsThatTouchAreOne) {
  const std::vector<OnInterval> touching{{0, 0, 3}, {0, 3, 5}, {0, 8, 10}, {1, 0, 4}, {1, 4, 10}};
  const auto on_line = make_periodic_on_line(2, 10, touching);
  EXPECT_EQ(on_line->next_off(0, 1), 5);
  EXPECT_EQ(on_line->next_off(0, 8), 15);  // over the end of the period
  EXPECT_EQ(on_line->next_on(0, 25), 28);
  EXPECT_EQ(on_line->next_off(1, 0), kNever);
}

TEST(OnLine, OfEveryoneAlwaysCostsNothing) {
  const auto on_line = make_always_on_line(int64_t{1} << 60);
  EXPECT_TRUE(on_line->always());
  EXPECT_TRUE(on_line->changes(5).empty());
  EXPECT_EQ(on_line->on_line(), int64_t{1} << 60);
}

}  // namespace
}  // namespace hanse
