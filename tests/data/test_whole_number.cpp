#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "data/csv/csv_scanner.hpp"

namespace hanse {
namespace {

TEST(WholeNumber, OneTextForEveryWayToWriteIt) {
  for (const char* text : {"7", "+7", "007", "7.0", "7.", "7e0", "70e-1", "0.7E+1", "+007.000"}) {
    EXPECT_EQ(whole_number(text), "7") << text;
  }
  for (const char* text : {"0", "-0", "+00", "0.000", "-.0", "0e999999999999", "0e-5"}) {
    EXPECT_EQ(whole_number(text), "0") << text;
  }
  EXPECT_EQ(whole_number("-12.50e1"), "-125");
  EXPECT_EQ(whole_number("1e20"), "1" + std::string(20, '0'));
}

// Neighbours that one double stands for.
TEST(WholeNumber, KeepsEveryDigit) {
  for (const char* text : {"9007199254740993", "900000000000207008", "900000000000207009",
                           "-18446744073709551615", "123456789012345678901234567890"}) {
    EXPECT_EQ(whole_number(text), text);
  }
  EXPECT_EQ(whole_number("900000000000207008.0"), "900000000000207008");
  EXPECT_EQ(whole_number(std::string(5000, '3')), std::string(5000, '3'));
}

TEST(WholeNumber, OthersAreNone) {
  for (const char* text :
       {"",     "+",  "-",   ".",   "e5",  "0.5",    "7.01",         "0.99999999999999999999",
        "1e-1", "1e", "1e+", "+-7", "--7", "0x10",   "1_000",        "1,000",
        "7 ",   " 7", "7a",  "nan", "inf", "1e1000", "-1e4294967296"}) {
    EXPECT_EQ(whole_number(text), std::nullopt) << text;
  }
}

TEST(WholeNumber, AreSortedByValue) {
  const std::vector<std::string> sorted = {"-18446744073709551616",
                                           "-100",
                                           "-99",
                                           "-1",
                                           "0",
                                           "1",
                                           "2",
                                           "10",
                                           "900000000000207008",
                                           "900000000000207009",
                                           "18446744073709551616"};
  for (std::size_t a = 0; a < sorted.size(); ++a) {
    for (std::size_t b = 0; b < sorted.size(); ++b) {
      EXPECT_EQ(less_whole(sorted[a], sorted[b]), a < b) << sorted[a] << " " << sorted[b];
    }
  }
}

}  // namespace
}  // namespace hanse
