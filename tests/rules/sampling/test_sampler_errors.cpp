// What samplers refuse.
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "rules/sampling/sampler_roster.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool learns(const SamplerCase& kind) { return kind.name.find("osmd") != std::string::npos; }

TEST(SamplerErrors, AlphaOutsideItsRange) {
  for (const double alpha : {0.0, -0.1, 1.0000001, kNan, kInfinity}) {
    expect_error<InvalidArgument>([&] { make_osmd_sampler({.alpha = alpha, .horizon = 10}, 5, 2); },
                                  {"sampler.alpha", "(0, 1]"});
  }
  make_osmd_sampler({.alpha = 1, .horizon = 10}, 5, 2);
  make_osmd_sampler({.alpha = 1e-300, .horizon = 10}, 5, 2);
}

TEST(SamplerErrors, MoreDrawsThanClientsWithoutReplacement) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (kind.name == "full") continue;
    SCOPED_TRACE(kind.name);
    for (const int64_t per_round : {-3, 0}) {
      expect_error<InvalidArgument>([&] { kind.make(4, per_round); }, {"sampler.per-round"});
    }
    if (kind.replacement) {
      EXPECT_EQ(draw_round(*kind.make(4, 9), 1).draws(), 9);
    } else {
      expect_error<InvalidArgument>([&] { kind.make(4, 5); }, {"sampler.per-round", "5", "[1, 4]"});
      EXPECT_EQ(draw_round(*kind.make(4, 4), 1).draws(), 4);
    }
  }
}

TEST(SamplerErrors, RatesWithoutAHorizonOrABound) {
  for (const int64_t horizon : {0, -1}) {
    expect_error<InvalidArgument>([&] { make_osmd_sampler({.horizon = horizon}, 5, 2); },
                                  {"sampler.horizon", "osmd-doubling"});
    expect_error<InvalidArgument>(
        [&] { make_osmd_sampler({.kind = OsmdKind::kFixed, .horizon = horizon}, 5, 2); },
        {"sampler.horizon"});
  }
  make_osmd_sampler({.kind = OsmdKind::kDoubling}, 5, 2);
  make_osmd_sampler({.kind = OsmdKind::kFixed, .eta = 0.1}, 5, 2);
  for (const double a_max : {0.0, -1.0, kNan}) {
    expect_error<InvalidArgument>(
        [&] {
          make_osmd_sampler({.bound = BoundSource::kGiven, .a_max = a_max, .horizon = 9}, 5, 2);
        },
        {"sampler.a-max"});
  }
}

TEST(SamplerErrors, SharesThatAreAllZero) {
  expect_error<InvalidArgument>([] { make_weighted_sampler(std::vector<double>(3), 1); },
                                {"share", "sampler.kind"});
}

// The rejected feedback leaves nothing behind.
TEST(SamplerErrors, FeedbackThatIsNoSquaredNorm) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (!learns(kind)) continue;
    SCOPED_TRACE(kind.name);
    const auto sampler = kind.make(40, 2);
    for (int64_t round = 1; round <= 3; ++round) play_round(*sampler, round);
    const auto p = probabilities_of(*sampler);
    const Draw draw = sampler->impose(sampler->per_round(), std::vector<int64_t>{31, 17});
    expect_error<InvalidArgument>(
        [&] {
          sampler->observe(draw, {.a = std::vector<double>{1, -1e-9}, .losses = {}});
        },
        {"client 17", "feedback"});
    EXPECT_EQ(probabilities_of(*sampler), p);
  }
}

TEST(Samplers, HearANumberThatCannotBeForTheLargestOther) {
  for (const double wrong : {kNan, kInfinity, -kInfinity, 1.0001e30, -1e200}) {
    EXPECT_EQ(heard(std::vector<double>{1, wrong, 3, 2}), (std::vector<double>{1, 3, 3, 2}));
    EXPECT_EQ(heard(std::vector<double>{wrong, wrong}), std::vector<double>(2));
  }
  EXPECT_EQ(heard(std::vector<double>{1e30, -5, 0}), (std::vector<double>{1e30, -5, 0}));
  EXPECT_EQ(heard(std::vector<double>()), std::vector<double>());
}

// One liar ends no run: it is as likely afterwards as if it had told the largest honest number.
TEST(Samplers, LearnFromALiarAsFromTheLargestOther) {
  std::vector<SamplerCase> kinds = sampler_roster();
  const LearningOptions options{.horizon = 20};
  kinds.push_back(
      {"mabs", true, [=](int64_t m, int64_t k) { return make_mabs_sampler(options, m, k); }});
  kinds.push_back(
      {"vrb", true, [=](int64_t m, int64_t k) { return make_vrb_sampler(options, m, k); }});
  for (const SamplerCase& kind : kinds) {
    SCOPED_TRACE(kind.name);
    for (const double lie : {kNan, kInfinity, 1e200}) {
      std::vector<std::vector<double>> p;
      for (const double told : {lie, 7.0}) {
        const auto sampler = kind.make(6, 3);
        sampler->observe_all(std::vector<double>{1, 2, 3, 7, told, 5});
        for (int64_t round = 1; round <= 3; ++round) {
          const Draw draw = draw_round(*sampler, round);
          std::vector<double> a(draw.size(), 7);
          if (a.size() > 1) a[0] = told;
          sampler->observe(draw, {.a = a, .losses = a});
        }
        p.push_back(probabilities_of(*sampler));
      }
      EXPECT_EQ(p[0], p[1]);
    }
  }
}

// Finite, though their products are not.
TEST(SamplerErrors, FeedbackThatOverflowsLeavesADistribution) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (!learns(kind)) continue;
    SCOPED_TRACE(kind.name);
    const auto sampler = kind.make(6, 2);
    sampler->observe_all(std::vector<double>(6, 1));
    for (int64_t round = 1; round <= 4; ++round) {
      const Draw draw = sampler->impose(sampler->per_round(), std::vector<int64_t>{round, 0});
      sampler->observe(draw, {.a = std::vector<double>(2, 1e308), .losses = {}});
      double sum = 0;
      for (const double p : probabilities_of(*sampler)) {
        EXPECT_GE(p, 0.3 / 6 * 0.999);
        sum += p;
      }
      EXPECT_NEAR(sum, 1, 1e-12);
    }
  }
}

TEST(SamplerErrors, DrawsThatCannotHaveHappened) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (kind.name == "full") continue;
    SCOPED_TRACE(kind.name);
    const auto sampler = kind.make(6, 2);
    if (sampler->needs_all_clients()) sampler->observe_all(std::vector<double>{1, 1, 0, 1, 1, 1});
    sampler->toggle(std::vector<int64_t>{5});
    const auto refuse = [&](const std::vector<int64_t>& draws, const std::string& what) {
      expect_error<InvalidArgument>([&] { sampler->impose(sampler->per_round(), draws); },
                                    {what, "draws"});
    };
    refuse({}, "0 draws, expected 2");
    refuse({1}, "1 draws, expected 2");
    refuse({1, 3, 4}, "3 draws, expected 2");
    refuse({1, 5}, "client 5");
    refuse({6, 1}, "client 6");
    refuse({1, -1}, "client -1");
    refuse({1, int64_t{1} << 40}, "client 1099511627776");
    if (sampler->needs_all_clients()) refuse({1, 2}, "client 2");
    if (kind.replacement) {
      EXPECT_EQ(sampler->impose(sampler->per_round(), std::vector<int64_t>{3, 3}).counts,
                std::vector<int64_t>{2});
    } else {
      refuse({3, 3}, "client 3");
    }
    // No more there than are drawn: all of them, once, in any order.
    sampler->toggle(std::vector<int64_t>{0, 2, 3});
    refuse({1, 1}, "client 1");
    refuse({4}, "1 draws, expected 2");
    const Draw all = sampler->impose(sampler->per_round(), std::vector<int64_t>{4, 1});
    EXPECT_EQ(std::set<int64_t>(all.clients.begin(), all.clients.end()), (std::set<int64_t>{1, 4}));
    EXPECT_TRUE(all.everyone);
  }
}

// A refused draw leaves the sampler as it was.
TEST(SamplerErrors, RefusedDrawsLeaveNoTrace) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (kind.name == "full") continue;
    SCOPED_TRACE(kind.name);
    const auto one = kind.make(12, 3);
    const auto other = kind.make(12, 3);
    for (int64_t round = 1; round <= 5; ++round) {
      play_round(*one, round);
      play_round(*other, round);
      EXPECT_THROW(other->impose(other->per_round(), std::vector<int64_t>{7, 2, 12}),
                   InvalidArgument);
      if (!kind.replacement) {
        EXPECT_THROW(other->impose(other->per_round(), std::vector<int64_t>{7, 2, 7}),
                     InvalidArgument);
      }
    }
    EXPECT_EQ(draw_round(*one, 6).clients, draw_round(*other, 6).clients);
    EXPECT_EQ(probabilities_of(*one), probabilities_of(*other));
  }
}

}  // namespace
}  // namespace hanse
