#include <limits>

#include <gtest/gtest.h>

#include "data/rounded_numbers.hpp"

namespace hanse {
namespace {

std::string name(int64_t column) { return "column " + std::to_string(column); }

TEST(RoundedNumbers, WhatFloat32HoldsIsNotSaid) {
  RoundedNumbers numbers;
  for (const double value : {0.0, 0.1, -16777216.0, 16777215.4, 16777218.0, 1099511627776.0}) {
    numbers.see(value);
  }
  numbers.see(std::numeric_limits<double>::infinity());
  numbers.see(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(numbers.columns().empty());
  EXPECT_EQ(numbers.text(name), "");
  EXPECT_EQ(RoundedNumbers().text(name), "");
}

// 2^24 + 1 is the least whole number that float32 lacks; times of 2023 lie 128 apart.
TEST(RoundedNumbers, CountsWholeNumbersOfEachColumn) {
  RoundedNumbers numbers;
  for (int t = 0; t < 40; ++t) {
    numbers.see(0.5, 0);
    numbers.see(1700000000.0 + t, 1);
    numbers.see(t == 3 ? -16777217.0 : t, 2);
  }
  EXPECT_EQ(numbers.columns(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(numbers.text(name),
            "column 1: 39 of 40 numbers are not exact in float32, 40 different ones become 1; "
            "column 2: 1 of 40 numbers is not exact in float32");
}

TEST(RoundedNumbers, FractionsAreSaidWhereTheyBecomeOne) {
  RoundedNumbers numbers;
  numbers.see(25000000.37, 0);  // far from the next
  numbers.see(1e9 + 0.25, 1);
  numbers.see(1e9, 1);  // held as it is, and the other one becomes it
  EXPECT_EQ(numbers.columns(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(numbers.text(name),
            "column 1: 1 of 2 numbers is not exact in float32, 2 different ones become 1");
}

// 8 significant bits: whole numbers to 256, multiples of 8 from 1024.
TEST(RoundedNumbers, OfBfloat16) {
  RoundedNumbers numbers(8, "bfloat16");
  for (int year = 2016; year < 2024; ++year) numbers.see(year, 0);
  for (const double value : {-256.0, 255.0, 0.1, 258.0, -1032.0}) numbers.see(value, 1);
  EXPECT_EQ(numbers.text(name),
            "column 0: 7 of 8 numbers are not exact in bfloat16, 8 different ones become 2");
  numbers.see(257, 1);  // to even
  EXPECT_EQ(numbers.columns(), (std::vector<int64_t>{0, 1}));
}

TEST(RoundedNumbers, NamesAFewColumnsOfMany) {
  RoundedNumbers numbers;
  for (int64_t column = 0; column < 9; ++column) numbers.see(16777217, column);
  const std::string text = numbers.text(name);
  EXPECT_NE(text.find("column 3: 1 of 1"), std::string::npos) << text;
  EXPECT_EQ(text.find("column 4"), std::string::npos) << text;
  EXPECT_NE(text.find("; 5 other columns alike"), std::string::npos) << text;
}

// The memory is bounded: 2^16 different ones of a column are kept, all are counted.
TEST(RoundedNumbers, CountsMoreThanItKeeps) {
  RoundedNumbers numbers;
  for (int i = 0; i < 100000; ++i) numbers.see(33554432.0 + i);  // float32: multiples of 4
  EXPECT_EQ(numbers.text([](int64_t) { return "x"; }),
            "x: 75000 of 100000 numbers are not exact in float32, 65536 different ones become "
            "16385");
}

}  // namespace
}  // namespace hanse
