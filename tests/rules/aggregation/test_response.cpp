#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/aaggff.hpp"
#include "rules/aggregation/support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

double rounded(double value) { return std::round(value * 100) / 100; }

// Table A1: losses 0.01, 0.10, 0.02.
TEST(Response, TableA1) {
  const std::map<Cdf, Numbers> table{
      {Cdf::kWeibull, {0.05, 1.00, 0.19}},  {Cdf::kFrechet, {0.01, 0.65, 0.11}},
      {Cdf::kGumbel, {0.12, 0.76, 0.18}},   {Cdf::kExponential, {0.21, 0.90, 0.37}},
      {Cdf::kLogistic, {0.32, 0.79, 0.37}}, {Cdf::kNormal, {0.22, 0.90, 0.29}},
  };
  ASSERT_EQ(table.size(), choices_of(Cdf()).size());
  const Numbers losses{0.01, 0.10, 0.02};
  const Numbers printed_inputs{0.23, 2.31, 0.46};
  for (const Cdf name : all_of<Cdf>()) {
    const ResponseOptions options{.cdf = name};
    const auto responses = respond(options, losses, mean(losses));
    for (std::size_t i = 0; i < 3; ++i) {
      // The paper printed this one cell from inputs already rounded: exactly it is 0.2951.
      const bool from_rounded = name == Cdf::kNormal && i == 2;
      const double value = from_rounded ? cdf(options, printed_inputs[i]) : responses[i];
      EXPECT_EQ(rounded(value), table.at(name)[i]) << name_of(name) << " " << i;
    }
  }
  EXPECT_EQ(rounded(respond({.cdf = Cdf::kNormal}, losses, mean(losses))[2]), 0.30);
}

TEST(Response, RisesFromC1ToC2) {
  for (const Cdf name : all_of<Cdf>()) {
    const ResponseOptions options{.cdf = name, .c1 = 0.25, .c2 = 0.75};
    double before = 0.25 - 1e-15;
    for (const double x : {0.0, 0.05, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0}) {
      const double r = respond(options, Numbers{x}, 1)[0];
      EXPECT_GT(r, before) << name_of(name) << " at " << x;
      EXPECT_LE(r, 0.75) << name_of(name) << " at " << x;
      before = r;
    }
    EXPECT_NEAR(respond(options, Numbers{1e6}, 1)[0], 0.75, 1e-6) << name_of(name);
    EXPECT_EQ(respond(options, Numbers{3e300}, 1e-20)[0], 0.75)
        << name_of(name) << " of an infinite ratio";
  }
}

// Values at x = 1 in closed form; the response is relative to the mean, so the unit cancels.
TEST(Response, ClosedFormAtTheMean) {
  const double e = std::exp(-1.0);
  const std::map<Cdf, double> expected{{Cdf::kWeibull, 1 - e}, {Cdf::kFrechet, e},
                                       {Cdf::kGumbel, e},      {Cdf::kExponential, 1 - e},
                                       {Cdf::kLogistic, 0.5},  {Cdf::kNormal, 0.5}};
  for (const Cdf name : all_of<Cdf>()) {
    for (const double unit : {1e-9, 1.0, 1e9}) {
      const auto r = respond({.cdf = name, .c1 = 1, .c2 = 3}, Numbers{unit, unit}, unit);
      expect_near(r, Numbers(2, 1 + 2 * expected.at(name)), 1e-15);
    }
  }
}

TEST(Response, AllLossesZeroCountAsTheMean) {
  for (const Cdf name : all_of<Cdf>()) {
    const ResponseOptions options{.cdf = name, .c2 = 2};
    EXPECT_EQ(respond(options, Numbers{0, 0}, 0), Numbers(2, 2 * cdf(options, 1))) << name_of(name);
  }
}

TEST(Response, FrechetAtZeroIsZero) {
  EXPECT_EQ(cdf({.cdf = Cdf::kFrechet}, 0), 0);
  EXPECT_EQ(respond({.cdf = Cdf::kFrechet, .c1 = 0.5, .c2 = 1}, Numbers{0, 2}, 1)[0], 0.5);
}

// The reference's normal distribution falls from 1.5 to 0.5 and is 1 at the mean.
TEST(Response, FallingNormalOfTheReference) {
  const ResponseOptions falling{.cdf = Cdf::kNormal, .falling_normal = true};
  EXPECT_EQ(cdf(falling, 1), 1);
  for (const double x : {0.0, 0.3, 1.0, 2.5, 40.0}) {
    EXPECT_NEAR(cdf(falling, x), 1.5 - cdf({.cdf = Cdf::kNormal}, x), 1e-15) << x;
  }
  for (const Cdf name : all_of<Cdf>()) {  // the others do not fall
    if (name == Cdf::kNormal) continue;
    EXPECT_EQ(cdf({.cdf = name, .falling_normal = true}, 2), cdf({.cdf = name}, 2))
        << name_of(name);
  }
}

TEST(Response, BadLossesNameTheParticipant) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {-1e-300, -2.0, nan, infinity, -infinity}) {
    for (const Cdf name : all_of<Cdf>()) {
      expect_error<InvalidArgument>(
          [&] {
            respond({.cdf = name}, Numbers{1, 2, bad}, 1);
          },
          {"participant 2", "finite number >= 0", "hint: "});
    }
  }
}

}  // namespace
}  // namespace hanse
