// How often clients could have been drawn: in closed form, and where it goes on from its state.
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/clock/draw_chances.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;

TEST(DrawChances, AreOneExactlyWhereAllAreAlwaysThere) {
  DrawChances chances(7);
  for (int64_t n = 1; n <= 7; ++n) {
    chances.draw(n, 7);
    for (int64_t client = 0; client < 7; ++client) EXPECT_EQ(chances.factor(client), 1);
  }
}

// Draws of 2 of 4 clients, of 1 of 2 and of 1 of 3: all would have 1/2, 1/4 and 1/4.
TEST(DrawChances, MakeUpForTheTimesAway) {
  DrawChances chances(4);
  chances.draw(2, 4);
  chances.toggle(Ids{0, 1});  // they go
  chances.draw(1, 2);
  EXPECT_DOUBLE_EQ(chances.factor(2), (0.5 + 0.25) / (0.5 + 0.5));
  chances.toggle(Ids{0, 3});  // 0 comes, 3 goes
  chances.toggle(Ids{2});     // goes and
  chances.toggle(Ids{2});     // comes
  chances.draw(1, 2);
  EXPECT_DOUBLE_EQ(chances.factor(0), 1 / (0.5 + 0.5));
  EXPECT_DOUBLE_EQ(chances.factor(1), 1 / 0.5);
  EXPECT_DOUBLE_EQ(chances.factor(2), 1 / (0.5 + 0.5 + 0.5));
  EXPECT_DOUBLE_EQ(chances.factor(3), 1 / (0.5 + 0.5));
}

// A loaded object is told who is away, of all, in the place of what has changed.
TEST(DrawChances, GoOnFromTheirState) {
  DrawChances straight(5);
  straight.draw(3, 5);
  straight.toggle(Ids{1, 2, 4});
  straight.draw(1, 2);
  for (const bool everyone : {false, true}) {
    State state;
    straight.save(state);
    DrawChances loaded(5);
    loaded.load(state);
    straight.toggle(everyone ? Ids{1, 2} : Ids{0, 2, 4});
    straight.draw(1, everyone ? 5 : 3);
    if (!everyone) loaded.toggle(Ids{0, 1});
    loaded.draw(1, everyone ? 5 : 3);
    for (int64_t client = 0; client < 5; ++client) {
      EXPECT_EQ(loaded.factor(client), straight.factor(client)) << client;
    }
    if (!everyone) straight.toggle(Ids{0});  // 1 and 2 are away as the second turn begins
    if (!everyone) straight.toggle(Ids{2});
  }
}

}  // namespace
}  // namespace hanse
