#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/rules/sampling/availability.hpp"
#include "support/chi_square.hpp"

namespace hanse {
namespace {

// Who is there, from the changes that an availability tells.
class Presences {
 public:
  Presences(Availability availability, int64_t clients)
      : availability_(std::move(availability)), there_(static_cast<std::size_t>(clients), true) {}

  // The next round asked for.
  const std::vector<bool>& at(int64_t round, uint64_t seed = 1) {
    const auto changed = availability_(round, seed);
    auto sorted = changed;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end()) << "twice";
    for (const int64_t client : changed) there_.at(static_cast<std::size_t>(client)).flip();
    return there_;
  }

 private:
  Availability availability_;
  std::vector<bool> there_;
};

TEST(Availability, IndependentClientsComeWithTheirProbability) {
  Presences presences(make_independent_availability(40, 0.3), 40);
  std::vector<int64_t> joint(4);  // of client 7 in this round and the last, and of 8
  std::vector<int64_t> with_neighbour(4);
  bool before = false;
  for (int64_t round = 1; round <= 20000; ++round) {
    const auto& there = presences.at(round);
    ++joint[2 * static_cast<std::size_t>(before) + static_cast<std::size_t>(there[7])];
    ++with_neighbour[2 * static_cast<std::size_t>(there[8]) + static_cast<std::size_t>(there[7])];
    before = there[7];
  }
  expect_frequencies(joint, {0.49, 0.21, 0.21, 0.09});
  expect_frequencies(with_neighbour, {0.49, 0.21, 0.21, 0.09});
}

TEST(Availability, CertainAndImpossible) {
  Presences always(make_independent_availability(9, 1), 9);
  Presences never(make_independent_availability(9, 0), 9);
  for (int64_t round = 1; round <= 50; ++round) {
    EXPECT_EQ(always.at(round), std::vector<bool>(9, true));
    EXPECT_EQ(never.at(round), std::vector<bool>(9, false));
  }
}

// A block is there for three rounds; ten clients in four blocks make 2, 3, 2 and 3.
TEST(Availability, BlocksTakeTurns) {
  Presences presences(make_block_availability(10, 4, 3), 10);
  const std::vector<std::vector<int64_t>> blocks{{0, 1}, {2, 3, 4}, {5, 6}, {7, 8, 9}};
  for (int64_t round = 1; round <= 30; ++round) {
    std::vector<bool> expected(10);
    for (const int64_t client : blocks[static_cast<std::size_t>((round - 1) / 3 % 4)]) {
      expected[static_cast<std::size_t>(client)] = true;
    }
    ASSERT_EQ(presences.at(round), expected) << round;
  }
  Presences single(make_block_availability(5, 1, 2), 5);
  for (int64_t round = 1; round <= 6; ++round) {
    EXPECT_EQ(single.at(round), std::vector<bool>(5, true));
  }
}

bool scheduled(const std::vector<Presence>& presences, int64_t client, int64_t round) {
  bool named = false;
  for (const Presence& presence : presences) {
    if (presence.client != client) continue;
    named = true;
    if (presence.first <= round && round <= presence.last) return true;
  }
  return !named;
}

// Overlaps, neighbours, the same twice, intervals inside others, empty ones and ones from before
// the first round.
TEST(Availability, SchedulesAreWhatTheySay) {
  std::vector<Presence> presences{{0, 3, 5},   {0, 4, 9},   {0, 12, 12}, {1, 1, 4},  {1, 5, 6},
                                  {2, 20, 40}, {3, 1, 100}, {4, 9, 8},   {5, -3, 2}, {5, -9, -4},
                                  {6, 7, 30},  {6, 10, 12}, {6, 7, 30},  {8, 0, 0}};
  RandomStream stream(1, Purpose::kData);
  for (int64_t i = 0; i < 200; ++i) {
    const int64_t first = stream.below(60) - 3;
    presences.push_back({20 + stream.below(40), first, first + stream.below(9) - 1});
  }
  Presences shown(make_scheduled_availability(presences), 70);
  Presences sparse(make_scheduled_availability(presences), 70);
  for (int64_t round = 1; round <= 80; ++round) {
    std::vector<bool> expected;
    for (int64_t m = 0; m < 70; ++m) expected.push_back(scheduled(presences, m, round));
    ASSERT_EQ(shown.at(round), expected) << round;
    if (round % 11 != 0) continue;
    ASSERT_EQ(sparse.at(round), expected) << round;
  }
}

// "For ever" written as the largest number.
TEST(Availability, ASchedulesLastRoundMayBeTheLargestNumber) {
  constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
  const std::vector<Presence> presences{
      {0, 4, kForever}, {1, kForever, kForever}, {1, 2, 2}, {0, 9, 9}};
  Presences shown(make_scheduled_availability(presences), 3);
  for (int64_t round = 1; round <= 12; ++round) {
    EXPECT_EQ(shown.at(round), (std::vector<bool>{round >= 4, round == 2, true})) << round;
  }
}

// Blocks and schedules cost their changes, not the clients; in a jump, what comes and goes between
// is not told.
TEST(Availability, TellsOnlyWhoChanges) {
  using Ids = std::vector<int64_t>;
  const Availability schedule = make_scheduled_availability(
      std::vector<Presence>{{900000000000, 2, 3}, {7, 3, 5}, {8, 12, 13}});
  EXPECT_EQ(schedule(1, 1), (Ids{7, 8, 900000000000}));
  EXPECT_EQ(schedule(2, 1), (Ids{900000000000}));
  EXPECT_EQ(schedule(2, 1), Ids());
  EXPECT_EQ(schedule(3, 1), (Ids{7}));
  EXPECT_EQ(schedule(10, 1), (Ids{7, 900000000000}));
  EXPECT_EQ(schedule(20, 1), Ids());
  const Availability blocks = make_block_availability(9, 3, 2);
  EXPECT_EQ(blocks(1, 1), (Ids{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(blocks(2, 1), Ids());
  EXPECT_EQ(blocks(3, 1), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(blocks(9, 1), Ids());  // the same block, a turn of all later
}

// As in a run that resumes: the first question may be about any round.
TEST(Availability, DependsOnSeedAndRoundAlone) {
  const std::vector<Presence> presences{{0, 3, 5}, {4, 8, 20}, {4, 30, 31}};
  for (int kind = 0; kind < 3; ++kind) {
    const auto make = [&] {
      return kind == 0   ? make_independent_availability(13, 0.5)
             : kind == 1 ? make_block_availability(13, 3, 4)
                         : make_scheduled_availability(presences);
    };
    Presences going(make(), 13);
    std::vector<bool> last;
    for (int64_t round = 1; round <= 30; ++round) last = going.at(round);
    EXPECT_EQ(Presences(make(), 13).at(30), last) << kind;
    if (kind != 0) continue;
    EXPECT_NE(Presences(make(), 13).at(30, 2), last);
  }
}

}  // namespace
}  // namespace hanse
