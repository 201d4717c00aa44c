// What parts of a run add to its tables.
#include <cmath>

#include <gtest/gtest.h>

#include "hanse/base/columns.hpp"

namespace hanse {
namespace {

std::vector<std::string> names_of(const Metrics& numbers) {
  std::vector<std::string> names;
  for (const auto& [name, value] : numbers) names.push_back(name);
  return names;
}

TEST(Columns, ArePartsNumbersInTheOrderInWhichTheyWereAdded) {
  double clock = 0;
  Columns columns;
  EXPECT_TRUE(columns.of_round(1).empty() && columns.of_client(0).empty());
  columns.add_to_rounds([&] { return Metrics{{"seconds", clock}, {"late", 2 * clock}}; });
  columns.add_to_rounds([&] { return Metrics{{"epsilon", clock / 2}}; });
  clock = 4;
  EXPECT_EQ(columns.of_round(7), (Metrics{{"seconds", 4}, {"late", 8}, {"epsilon", 2}}));
  columns.add_to_clients([](int64_t client) {
    return Metrics{{"counted", static_cast<double>(client)}};
  });
  columns.add_to_clients([](int64_t) { return Metrics{{"speed", 3}}; });
  EXPECT_EQ(columns.of_client(5), (Metrics{{"counted", 5}, {"speed", 3}}));
  columns.add_to_summary([&] { return Metrics{{"gini", clock}}; });
  EXPECT_EQ(columns.of_run(), (Metrics{{"gini", 4}}));
}

TEST(Columns, AreThereWithoutNumbersBeforeTheirFirstRound) {
  Columns columns;
  columns.add_to_rounds([] { return Metrics{{"late", 1}}; }, 3);
  columns.add_to_rounds([] { return Metrics{{"early", 2}}; });
  EXPECT_EQ(names_of(columns.of_round(0)), (std::vector<std::string>{"late", "early"}));
  for (int64_t round = 1; round < 5; ++round) {
    const Metrics numbers = columns.of_round(round);
    EXPECT_EQ(names_of(numbers), (std::vector<std::string>{"late", "early"}));
    EXPECT_EQ(std::isnan(numbers[0].second), round < 3) << round;
    EXPECT_EQ(numbers[1].second, 2);
  }
}

}  // namespace
}  // namespace hanse
