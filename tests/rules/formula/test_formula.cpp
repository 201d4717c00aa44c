// Expressions: what they are worth, and how errors point into them.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/formula/formula.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;

const Numbers kN{10, 40, 10};
const Numbers kF{0.5, 2, 1};
const double kRound = 7;

Formula parsed(const std::string& text) {
  return Formula(text, {"n", "F", "round"}, "aggregator.formula");
}

Numbers value(const std::string& text) {
  return parsed(text).evaluate({kN, kF, std::span(&kRound, 1)}, 3);
}

TEST(Formula, Arithmetic) {
  EXPECT_EQ(value("2"), (Numbers{2, 2, 2}));
  EXPECT_EQ(value(" n "), kN);
  EXPECT_EQ(value("round"), (Numbers{7, 7, 7}));
  EXPECT_EQ(value("n - 2 - 3"), (Numbers{5, 35, 5}));
  EXPECT_EQ(value("n / 2 / 5"), (Numbers{1, 4, 1}));
  EXPECT_EQ(value("1 + n * F"), (Numbers{6, 81, 11}));
  EXPECT_EQ(value("(1 + n) * F"), (Numbers{5.5, 82, 11}));
  EXPECT_EQ(value("-F * -2"), (Numbers{1, 4, 2}));
  EXPECT_EQ(value("3 - -F"), (Numbers{3.5, 5, 4}));
  EXPECT_EQ(value("1.5e1 + .5 - 2E-1*0"), (Numbers{15.5, 15.5, 15.5}));
}

TEST(Formula, Functions) {
  EXPECT_EQ(value("exp(F)"), (Numbers{std::exp(0.5), std::exp(2.0), std::exp(1.0)}));
  EXPECT_EQ(value("log(n)"), (Numbers{std::log(10.0), std::log(40.0), std::log(10.0)}));
  EXPECT_EQ(value("sqrt(4 * F)"), (Numbers{std::sqrt(2.0), std::sqrt(8.0), 2}));
  EXPECT_EQ(value("abs(F - 1)"), (Numbers{0.5, 1, 0}));
  EXPECT_EQ(value("pow(F, 2)"), (Numbers{0.25, 4, 1}));
  EXPECT_EQ(value("min(n, 20 * F)"), (Numbers{10, 40, 10}));
  EXPECT_EQ(value("max(n, 12)"), (Numbers{12, 40, 12}));
}

TEST(Formula, FunctionsOverAll) {
  EXPECT_EQ(value("sum(n)"), (Numbers{60, 60, 60}));
  EXPECT_EQ(value("sum(1)"), (Numbers{3, 3, 3}));
  EXPECT_EQ(value("mean(n)"), (Numbers{20, 20, 20}));
  EXPECT_EQ(value("min(F)"), (Numbers{0.5, 0.5, 0.5}));
  EXPECT_EQ(value("F / max(F)"), (Numbers{0.25, 1, 0.5}));
  EXPECT_EQ(value("rank(F)"), (Numbers{1, 3, 2}));
  EXPECT_EQ(value("rank(n)"), (Numbers{1.5, 3, 1.5}));
}

TEST(Formula, UsesWhatItNames) {
  EXPECT_TRUE(parsed("n + exp(F)").uses("F"));
  EXPECT_FALSE(parsed("n").uses("F"));
}

// Column, place, and a hint, in one line.
TEST(Formula, ErrorsPointIntoIt) {
  const auto refused = [](const std::string& text, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { parsed(text); }, parts);
  };
  refused("n * exp(2 * f)", {"unknown name 'f' at column 13: n * exp(2 * -->f)",
                             "aggregator.formula", "names: n, F, round"});
  refused("n * epx(F)", {"unknown function 'epx' at column 5: n * -->epx(F)", "'exp'", "rank"});
  refused("n * (F + 1", {"expected ')' at column 11: n * (F + 1-->"});
  refused("n * F)", {"unexpected ')' at column 6: n * F-->)"});
  refused("n F", {"unexpected 'F' at column 3: n -->F"});
  refused("n *", {"expected a value at column 4: n *-->"});
  refused("n ^ 2", {"unexpected '^' at column 3"});
  refused("* n", {"unexpected '*' at column 1: -->* n"});
  refused("1.2.3", {"no number at column 1: -->1.2.3"});
  refused("2n", {"no number at column 1"});
  refused("pow(F)", {"pow() takes 2 values, not 1 at column 1"});
  refused("exp(F, 2)", {"exp() takes 1 values, not 2"});
  refused("max(1, 2, 3)", {"max() takes 1 or 2 values, not 3"});
  refused("  ", {"the formula is empty", "names: n, F, round"});
  refused(std::string(2000, '('), {"more than 1000 characters"});
  refused(std::string(900, '('), {"expected a value at column 901"});
}

TEST(Formula, WeightsAreFiniteAndNotNegative) {
  const std::vector<int64_t> clients{4, 8};
  const auto refused = [&](const Numbers& values, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { require_weights(parsed("F"), values, clients, 3); }, parts);
  };
  refused({1, -1}, {"'F' is -1 for client 8 in round 3", "aggregator.formula"});
  refused({std::nan(""), 1}, {"'F' is nan for client 4"});
  refused({1, -std::nan("")}, {"'F' is nan for client 8"});
  refused({1, INFINITY}, {"inf for client 8"});
  refused({0, 0}, {"'F' sums to 0", "round 3"});
  refused({1e308, 1e308}, {"sums to inf"});
  EXPECT_NO_THROW(require_weights(parsed("F"), Numbers{0, 1}, clients, 3));
}

}  // namespace
}  // namespace hanse
