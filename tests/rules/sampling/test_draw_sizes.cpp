// Draws of fewer than the most that a sampler draws.
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "rules/sampling/sampler_roster.hpp"
#include "support/chi_square.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

std::size_t index(int64_t i) { return static_cast<std::size_t>(i); }

// Every sampler that draws any number of clients.
std::vector<SamplerCase> samplers() {
  std::vector<SamplerCase> all;
  for (const SamplerCase& kind : sampler_roster()) {
    if (kind.name != "full") all.push_back(kind);
  }
  for (const bool replacement : {true, false}) {
    const LearningOptions options{.replacement = replacement, .horizon = 50, .mixing = 0.2};
    all.push_back({"mabs", replacement, [=](int64_t clients, int64_t per_round) {
                     return make_mabs_sampler(options, clients, per_round);
                   }});
    for (const Variant variant : {Variant::kPaper, Variant::kReference}) {
      LearningOptions vrb = options;
      vrb.variant = variant;
      all.push_back({"vrb", replacement, [=](int64_t clients, int64_t per_round) {
                       return make_vrb_sampler(vrb, clients, per_round);
                     }});
    }
    all.push_back({"formula", replacement, [=](int64_t clients, int64_t per_round) {
                     std::vector<double> samples(index(clients));
                     std::iota(samples.begin(), samples.end(), 1.0);
                     return make_formula_sampler("sqrt(a) + n", samples, per_round, replacement);
                   }});
  }
  return all;
}

// In round 4 three clients are left: a draw of four is one of everyone.
TEST(DrawSizes, ADrawOfNAndWhatItTeachesAreThoseOfASamplerOfN) {
  const std::vector<int64_t> most{0, 1, 3, 5, 6, 8};
  for (const SamplerCase& kind : samplers()) {
    for (const int64_t n : {1, 2, 4}) {
      SCOPED_TRACE(kind.name + ", " + std::to_string(n) + (kind.replacement ? " again" : ""));
      const auto many = kind.make(9, 5);
      const auto few = kind.make(9, n);
      for (int64_t round = 1; round <= 20; ++round) {
        for (const auto& sampler : {many.get(), few.get()}) {
          if (round == 4 || round == 6) sampler->toggle(most);
        }
        expect_same(play_round(*many, round, n), play_round(*few, round));
        ASSERT_EQ(probabilities_of(*many), probabilities_of(*few)) << round;
        ASSERT_EQ(many->expert_weights(), few->expert_weights()) << round;
      }
    }
  }
}

TEST(DrawSizes, ADrawOfNobodyTakesNoRandomNumberAndTeachesNothing) {
  for (const SamplerCase& kind : samplers()) {
    SCOPED_TRACE(kind.name);
    const auto sampler = kind.make(6, 4);
    play_round(*sampler, 1);
    if (sampler->needs_all_clients()) sampler->observe_all(round_gradients(6, 2));
    const auto before = probabilities_of(*sampler);
    RandomStream stream(1, Purpose::kSampling, 2), same = stream;
    const Draw draw = sampler->draw(2, 0, stream);
    EXPECT_EQ(draw.size(), 0U);
    EXPECT_FALSE(draw.everyone);
    EXPECT_EQ(stream.uniform(), same.uniform());
    sampler->observe(draw, {});
    EXPECT_EQ(probabilities_of(*sampler), before);
  }
}

// i first and j second have probability p_i p_j with replacement, p_i p_j/(1 - p_i) without.
TEST(DrawSizes, PairsOfASamplerOfFourFollowTheProbabilities) {
  constexpr int64_t kClients = 6;
  for (const SamplerCase& kind : samplers()) {
    SCOPED_TRACE(kind.name);
    const auto sampler = kind.make(kClients, 4);
    play_round(*sampler, 1);
    if (sampler->needs_all_clients()) sampler->observe_all(round_gradients(kClients, 2));
    const auto p = probabilities_of(*sampler);
    std::vector<int64_t> counts(index(kClients * kClients));
    for (int64_t round = 1; round <= 20000; ++round) {
      RandomStream stream(9, Purpose::kSampling, static_cast<uint64_t>(round));
      const Draw draw = sampler->draw(2, 2, stream);
      ASSERT_EQ(draw.draws(), 2);
      ++counts[index(draw.clients.front() * kClients + draw.clients.back())];
    }
    std::vector<int64_t> seen;
    std::vector<double> expected;
    for (std::size_t i = 0; i < p.size(); ++i) {
      for (std::size_t j = 0; j < p.size(); ++j) {
        if (i == j && !kind.replacement) continue;
        seen.push_back(counts[i * p.size() + j]);
        expected.push_back(p[i] * p[j] / (kind.replacement ? 1 : 1 - p[i]));
      }
    }
    expect_frequencies(seen, expected);
  }
}

TEST(DrawSizes, FullDrawsNoFewerThanAreThere) {
  const auto sampler = make_full_sampler(5);
  expect_error<InvalidArgument>([&] { draw_round(*sampler, 1, 4); },
                                {"all of 5 clients", "asks for 4", "sampler.kind"});
  sampler->toggle(std::vector<int64_t>{1, 3});
  EXPECT_EQ(draw_round(*sampler, 1, 3).clients, (std::vector<int64_t>{0, 2, 4}));
  EXPECT_THROW(sampler->impose(2, std::vector<int64_t>{0, 2}), InvalidArgument);
}

// Its floor is one of rounds of the same number of draws.
TEST(DrawSizes, AvareDrawsItsNumberOrEveryone) {
  const auto sampler = make_avare_sampler({.replacement = false}, 5, 3);
  expect_error<InvalidArgument>([&] { draw_round(*sampler, 1, 2); },
                                {"draws 3 clients", "asks for 2", "sampler.kind"});
  EXPECT_THROW(sampler->impose(2, std::vector<int64_t>{0, 2}), InvalidArgument);
  sampler->toggle(std::vector<int64_t>{1, 3, 4});
  EXPECT_TRUE(draw_round(*sampler, 1, 2).everyone);
}

}  // namespace
}  // namespace hanse
