// Ticks, and the texts of the clock's options.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/clock/options.hpp"
#include "hanse/rules/clock/staleness.hpp"
#include "hanse/rules/clock/ticks.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::string seconds_text(Ticks ticks) {
  std::string text;
  append_seconds(text, ticks);
  return text;
}

TEST(Ticks, AreWholeMicrosecondsAndAtLeastOne) {
  EXPECT_EQ(ticks_of(0), 1);
  EXPECT_EQ(seconds_text(0), "0");
  EXPECT_EQ(seconds_text(1), "0.000001");
  EXPECT_EQ(seconds_text(12'500'000), "12.5");
  EXPECT_EQ(seconds_text(123'456'789'000'100), "123456789.0001");
  EXPECT_EQ(ticks_of(1e-7), 1);
  EXPECT_EQ(ticks_of(2.5e-6), 2);  // to even
  EXPECT_EQ(ticks_of(3.5e-6), 4);
  EXPECT_EQ(ticks_of(1.25), 1250000);
  EXPECT_EQ(seconds_of(1250000), 1.25);
  EXPECT_EQ(ticks_of(std::ldexp(1, 62) / 1e6), kMostTicks);
}

TEST(Ticks, NameTheClientWhoseDurationIsNone) {
  for (const double seconds : {-1e-9, std::nan(""), kInfinite, 5e12}) {
    expect_error<InvalidArgument>([&] { ticks_of(seconds, 7); }, {"client 7", "no duration"});
  }
  EXPECT_EQ(later(3, 4), 7);
  expect_error<InvalidArgument>([] { later(kMostTicks, 1, 5); }, {"client 5"});
  expect_error<InvalidArgument>([] { later(kNever, kNever, 5); }, {"client 5"});
}

TEST(Ticks, CeilingsOfProductsAreThoseOfDecimals) {
  EXPECT_EQ(ceil_of_product(1.1 * 50), 55);
  EXPECT_EQ(ceil_of_product(1.3 * 10), 13);
  EXPECT_EQ(ceil_of_product(0.1 * 30), 3);
  EXPECT_EQ(ceil_of_product(1.31 * 10), 14);
}

template <class T>
std::string read_again(const std::string& text) {
  return T::parse(text).text();
}

TEST(ClockTexts, AreReadAsTheyAreWritten) {
  for (const std::string text : {"constant(2)", "uniform(0.5,1.5)", "lognormal(1,0.6)",
                                 "halfnormal(0,2)", "exponential(0.1)", "pareto(2,1)"}) {
    EXPECT_EQ(read_again<Distribution>(text), text);
    EXPECT_EQ(read_again<LinkRate>(text), text);
  }
  EXPECT_EQ(read_again<Distribution>(" lognormal( -1 , 0.6 )"), "lognormal(-1,0.6)");
  EXPECT_EQ(Distribution{}.text(), "constant(1)");
  EXPECT_EQ(LinkRate{}.text(), "inf");
  EXPECT_EQ(read_again<LinkRate>("inf"), "inf");
  for (const std::string text : {"always", "markov(10,2.5)", "diurnal(86400,0.3)", "file"}) {
    EXPECT_EQ(read_again<OnLineOptions>(text), text);
  }
  for (const std::string text : {"0", "0.25", "file"}) {
    EXPECT_EQ(read_again<LostOptions>(text), text);
  }
  for (const std::string text : {"60", "1e-06", "quantile(1)", "quantile(0.5)"}) {
    EXPECT_EQ(read_again<DeadlineOptions>(text), text);
  }
}

TEST(ClockTexts, OfOtherFormsOrRangesAreRefused) {
  for (const std::string text : {"constant(0)",
                                 "constant(-1)",
                                 "constant(inf)",
                                 "uniform(0,1)",
                                 "uniform(2,1)",
                                 "uniform(1)",
                                 "lognormal(1,-1)",
                                 "lognormal(nan,1)",
                                 "halfnormal(0,0)",
                                 "halfnormal(-1,2)",
                                 "exponential(0)",
                                 "exponential(1,2)",
                                 "pareto(0,1)",
                                 "pareto(1,0)",
                                 "1",
                                 "slow",
                                 "uniform",
                                 "uniform(1,2",
                                 "uniform(1,x)",
                                 "constant()",
                                 ""}) {
    expect_error<InvalidArgument>([&] { Distribution::parse(text); }, {text, "lognormal(mu"});
    expect_error<InvalidArgument>([&] { LinkRate::parse(text); }, {text, "known: inf"});
  }
  for (const std::string text : {"never", "markov(1)", "markov(0,1)", "diurnal(1,0)",
                                 "diurnal(1,1.5)", "diurnal(0,1)", "always(1)", "0.5"}) {
    expect_error<InvalidArgument>([&] { OnLineOptions::parse(text); }, {text, "markov(on, off)"});
  }
  for (const std::string text : {"1", "-0.1", "lost", "file(1)"}) {
    expect_error<InvalidArgument>([&] { LostOptions::parse(text); }, {text, "[0, 1)"});
  }
  for (const std::string text : {"0", "-1", "inf", "quantile(0)", "quantile(1.01)", "quantile"}) {
    expect_error<InvalidArgument>([&] { DeadlineOptions::parse(text); }, {text, "quantile(p)"});
  }
}

AsyncOptions stale(StalenessKind kind, double a, double b) {
  return {.staleness = kind, .a = a, .b = b};
}

TEST(Staleness, OfNothingCountsOneExactly) {
  for (const auto kind : {StalenessKind::kConstant, StalenessKind::kPoly, StalenessKind::kHinge,
                          StalenessKind::kThreshold}) {
    for (const double a : {0.0, 0.3, 7.0}) {
      for (const double b : {0.0, 4.0}) EXPECT_EQ(staleness_weight(stale(kind, a, b), 0), 1);
    }
  }
}

TEST(Staleness, FollowsItsFormula) {
  const auto s = [](StalenessKind kind, double a, double b, int64_t tau) {
    return staleness_weight(stale(kind, a, b), tau);
  };
  EXPECT_DOUBLE_EQ(s(StalenessKind::kPoly, 0.5, 4, 3), 0.5);
  for (int64_t tau = 0; tau < 9; ++tau) {
    EXPECT_EQ(s(StalenessKind::kPoly, 0, 4, tau), s(StalenessKind::kConstant, 3, 4, tau));
  }
  EXPECT_EQ(s(StalenessKind::kHinge, 10, 4, 4), 1);
  EXPECT_DOUBLE_EQ(s(StalenessKind::kHinge, 10, 4, 5), 1 / 11.0);
  EXPECT_DOUBLE_EQ(s(StalenessKind::kHinge, 10, 4, 7), 1 / 31.0);
  EXPECT_EQ(s(StalenessKind::kThreshold, 0.25, 4, 4), 1);
  EXPECT_EQ(s(StalenessKind::kThreshold, 0.25, 4, 5), 0.25);
  AsyncOptions mixed = stale(StalenessKind::kPoly, 0.5, 4);
  mixed.mixing = 0.8;
  EXPECT_DOUBLE_EQ(mixing_rate(mixed, 3), 0.4);
}

TEST(Staleness, DividesABufferByItsSizeOrByItsWeights) {
  AsyncOptions options = stale(StalenessKind::kPoly, 0.5, 4);
  const std::vector<double> m{0.25, 0.75};
  const std::vector<int64_t> tau{3, 0};
  EXPECT_EQ(buffer_coefficients(options, m, tau), (std::vector{0.125, 0.75}));
  options.normalize = BufferNorm::kWeights;
  const auto c = buffer_coefficients(options, m, tau);
  EXPECT_DOUBLE_EQ(c[0], 1 / 7.0);
  EXPECT_DOUBLE_EQ(c[1], 6 / 7.0);
}

// What a rule gives in sum, whatever that is, is given to the members anew.
TEST(Staleness, DividesWeightsThatDoNotSumToOne) {
  AsyncOptions options = stale(StalenessKind::kPoly, 0.5, 4);
  options.normalize = BufferNorm::kWeights;
  const std::vector<int64_t> tau{3, 0};
  EXPECT_EQ(buffer_coefficients(options, std::vector{0.3}, std::vector<int64_t>{5}),
            std::vector{0.3});
  const auto c = buffer_coefficients(options, std::vector{0.5, 2.0}, tau);
  EXPECT_DOUBLE_EQ(c[0], 0.25 * 2.5 / 2.25);
  EXPECT_DOUBLE_EQ(c[1], 2.0 * 2.5 / 2.25);
  const auto signs = buffer_coefficients(options, std::vector{-1.0, 0.5}, tau);  // half and all
  EXPECT_DOUBLE_EQ(signs[0], -0.5 * 1.5);
  EXPECT_DOUBLE_EQ(signs[1], 0.5 * 1.5);
}

TEST(Staleness, LeavesNoWeightWhereAllAreTooOld) {
  const std::vector<double> m{0.25, 0.75}, nothing{0, 0};
  const std::vector<int64_t> tau{3, 5};
  for (const AsyncOptions& old :
       {stale(StalenessKind::kThreshold, 0, 0), stale(StalenessKind::kPoly, 3000, 4),
        stale(StalenessKind::kHinge, 1e308, 0)}) {
    for (const auto normalize : {BufferNorm::kBuffer, BufferNorm::kWeights}) {
      AsyncOptions options = old;
      options.normalize = normalize;
      for (const double c : buffer_coefficients(options, m, tau)) EXPECT_LT(c, 1e-300);
      EXPECT_EQ(buffer_coefficients(options, nothing, tau), nothing);
    }
  }
}

}  // namespace
}  // namespace hanse
