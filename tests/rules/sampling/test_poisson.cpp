// Samplers of private rounds: each client on its own, and all in turn.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "support/chi_square.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;

Draw draw_of(ClientSampler& sampler, int64_t round) {
  RandomStream unused(1, Purpose::kSampling, static_cast<uint64_t>(round));
  return sampler.draw(round, sampler.per_round(), unused);
}

// Each of 4 clients with probability 1/4, 20000 times: `draw` gives those that take part.
void expect_independent(const std::function<Draw(int64_t i)>& draw) {
  std::vector<int64_t> seen(16);  // by the set of participants
  for (int64_t i = 1; i <= 20000; ++i) {
    std::size_t set = 0;
    for (const int64_t client : draw(i).clients) set |= std::size_t{1} << client;
    ++seen[set];
  }
  std::vector<double> expected;
  for (int set = 0; set < 16; ++set) {
    const int k = __builtin_popcount(static_cast<unsigned>(set));
    expected.push_back(std::pow(0.25, k) * std::pow(0.75, 4 - k));
  }
  expect_frequencies(seen, expected);
}

TEST(PoissonSampler, ClientsTakePartIndependentlyOfEachOther) {
  const auto sampler = make_poisson_sampler(4, 1, 7);
  expect_independent([&](int64_t round) { return draw_of(*sampler, round); });
}

// P(K = k) of 60 clients, 5 of them expected.
TEST(PoissonSampler, HowManyTakePartIsBinomial) {
  const auto sampler = make_poisson_sampler(60, 5, 3);
  std::vector<int64_t> seen(13);
  for (int64_t round = 1; round <= 8000; ++round) {
    ++seen[std::min<std::size_t>(draw_of(*sampler, round).size(), 12)];
  }
  std::vector<double> expected;
  double p = std::pow(55.0 / 60, 60), rest = 1;
  for (int k = 0; k < 12; ++k) {
    expected.push_back(p);
    rest -= p;
    p *= (60.0 - k) / (k + 1) * 5 / 55;
  }
  expected.push_back(rest);
  expect_frequencies(seen, expected);
}

// Words of a key for each draw, as a run's secret gives them.
SecretWords secret_words(std::shared_ptr<uint64_t> draws = std::make_shared<uint64_t>(0)) {
  return [draws] {
    return CipherStream(CipherKey::of_numbers(std::array<uint64_t, 1>{9}).derived(++*draws));
  };
}

TEST(PoissonSampler, SecretWordsDecideAsNumbersDo) {
  const auto sampler = make_secret_poisson_sampler(4, 1, secret_words());
  expect_independent([&](int64_t) { return draw_of(*sampler, 1); });
}

TEST(UniformSampler, SecretWordsMakeEverySubsetEquallyLikely) {
  const auto sampler = make_secret_uniform_sampler(5, 2, secret_words());
  std::map<Ids, int64_t> seen;
  for (int64_t draw = 0; draw < 10000; ++draw) ++seen[draw_of(*sampler, 1).clients];
  std::vector<int64_t> counts;
  for (const auto& [subset, count] : seen) {
    EXPECT_LT(subset[0], subset[1]);
    counts.push_back(count);
  }
  expect_frequencies(counts, std::vector<double>(10, 0.1));
}

TEST(PoissonSampler, TakesWhoseNumberIsBelowTheThreshold) {
  const auto sampler = make_poisson_sampler(50, 7, 11);
  const int64_t threshold = poisson_threshold(7, 50);
  for (int64_t round = 1; round <= 20; ++round) {
    Ids expected;
    for (int64_t client = 0; client < 50; ++client) {
      RandomStream stream(11, Purpose::kPoisson, static_cast<uint64_t>(round),
                          static_cast<uint64_t>(client));
      if (stream.below(int64_t{1} << 53) < threshold) expected.push_back(client);
    }
    const Draw draw = draw_of(*sampler, round);
    EXPECT_EQ(draw.clients, expected);
    const double rate = std::ldexp(static_cast<double>(threshold), -53);
    EXPECT_EQ(draw.weights, std::vector<double>(expected.size(), 1 / rate));
    EXPECT_EQ(draw.probabilities, std::vector<double>(expected.size(), 1 / 50.0));
    EXPECT_FALSE(draw.everyone);
  }
}

// The sum of the weights of a client is its rounds but for chance.
TEST(PoissonSampler, WeightsMakeSumsUnbiasedForThoseWhoAreThere) {
  const auto sampler = make_poisson_sampler(5, 2, 2);
  sampler->toggle(Ids{1, 3});
  std::vector<double> sums(5);
  for (int64_t round = 1; round <= 20000; ++round) {
    const Draw draw = draw_of(*sampler, round);
    for (std::size_t i = 0; i < draw.size(); ++i) {
      sums[static_cast<std::size_t>(draw.clients[i])] += draw.weights[i];
    }
  }
  for (const std::size_t there : {0, 2, 4}) EXPECT_NEAR(sums[there] / 20000, 1, 0.04);
  EXPECT_EQ(sums[1] + sums[3], 0);
}

TEST(PoissonSampler, NobodyMayComeAndAllComeWithProbabilityOne) {
  const auto rare = make_poisson_sampler(3, 1, 4);
  bool was_empty = false;
  for (int64_t round = 1; round <= 60; ++round) {
    const Draw draw = draw_of(*rare, round);
    if (draw.size() > 0) continue;
    was_empty = true;
    EXPECT_TRUE(draw.weights.empty());
    EXPECT_FALSE(draw.everyone);
  }
  EXPECT_TRUE(was_empty);
  const Draw all = draw_of(*make_poisson_sampler(3, 3, 4), 1);
  EXPECT_EQ(all.clients, (Ids{0, 1, 2}));
  EXPECT_EQ(all.weights, (std::vector<double>{1, 1, 1}));
  EXPECT_TRUE(all.everyone);
}

TEST(PoissonSampler, ARoundHasNoMoreThanItsBound) {
  EXPECT_EQ(make_poisson_sampler(50, 7, 1)->per_round(), 50);
  EXPECT_EQ(make_poisson_sampler(1000000, 100, 1)->per_round(), 300);  // 100 + 10 * 10 + 100
}

TEST(PoissonSampler, ATraceMayHaveAnyNumberOfClientsWhoAreThere) {
  const auto sampler = make_poisson_sampler(6, 2, 1);
  sampler->toggle(Ids{4});
  EXPECT_EQ(sampler->impose(6, {}).size(), 0U);
  const Draw draw = sampler->impose(6, Ids{0, 5, 2});
  EXPECT_EQ(draw.clients, (Ids{0, 5, 2}));
  EXPECT_NEAR(draw.weights[1], 3, 1e-14);
  expect_error<InvalidArgument>([&] { sampler->impose(6, Ids{0, 4}); }, {"client 4", "away"});
  expect_error<InvalidArgument>([&] { sampler->impose(6, Ids{0, 0}); }, {"client 0", "twice"});
  expect_error<InvalidArgument>([&] { sampler->impose(3, Ids{0}); }, {"whole rounds"});
}

TEST(CyclicSampler, AllComeInTurnInOneRandomOrder) {
  const auto sampler = make_cyclic_sampler(7, 3, 5);
  Ids order(7);
  for (std::size_t i = 0; i < 7; ++i) order[i] = static_cast<int64_t>(i);
  RandomStream(5, Purpose::kPoisson).shuffle(std::span(order));
  for (int64_t round = 1; round <= 40; ++round) {
    Ids expected;
    for (int64_t k = 0; k < 3; ++k) {
      expected.push_back(order[static_cast<std::size_t>(((round - 1) * 3 + k) % 7)]);
    }
    const Draw draw = draw_of(*sampler, round);
    EXPECT_EQ(draw.clients, expected);
    EXPECT_EQ(draw.weights, std::vector<double>(3, 7.0 / 3));
    EXPECT_FALSE(draw.everyone);
  }
  // A round is what it is, whatever was drawn before.
  EXPECT_EQ(draw_of(*make_cyclic_sampler(7, 3, 5), 33).clients, draw_of(*sampler, 33).clients);
}

TEST(CyclicSampler, AClientComesAgainAfterAsManyRoundsAsThereAreDraws) {
  const auto sampler = make_cyclic_sampler(23, 5, 9);
  std::map<int64_t, int64_t> last;
  for (int64_t round = 1; round <= 200; ++round) {
    for (const int64_t client : draw_of(*sampler, round).clients) {
      if (last.contains(client)) {
        EXPECT_GE(round - last[client], 23 / 5);
      }
      last[client] = round;
    }
  }
  EXPECT_EQ(last.size(), 23U);
}

TEST(CyclicSampler, EveryOrderIsEquallyLikely) {
  std::map<Ids, int64_t> seen;
  for (uint64_t seed = 1; seed <= 6000; ++seed) {
    ++seen[draw_of(*make_cyclic_sampler(3, 3, seed), 1).clients];
  }
  ASSERT_EQ(seen.size(), 6U);
  Ids counts;
  for (const auto& [order, count] : seen) counts.push_back(count);
  expect_equally_likely(counts);
}

TEST(CyclicSampler, LeavesOutWhoIsAwayAndGoesOn) {
  const auto whole = make_cyclic_sampler(6, 2, 8);
  const auto sampler = make_cyclic_sampler(6, 2, 8);
  const Ids first = draw_of(*whole, 1).clients;
  sampler->toggle(Ids{first[0]});
  EXPECT_EQ(draw_of(*sampler, 1).clients, Ids{first[1]});
  EXPECT_EQ(draw_of(*sampler, 2).clients, draw_of(*whole, 2).clients);
  sampler->toggle(Ids{first[0]});
  EXPECT_EQ(draw_of(*sampler, 4).clients, first);
  EXPECT_EQ(draw_of(*sampler, (int64_t{1} << 62) + 1).size(), 2U);  // no product overflows
}

TEST(CyclicSampler, ATraceHasClientsWhoAreThere) {
  const auto sampler = make_cyclic_sampler(6, 3, 1);
  EXPECT_EQ(sampler->impose(3, Ids{5, 0, 2}).weights, std::vector<double>(3, 2));
  expect_error<InvalidArgument>([&] { sampler->impose(3, Ids{0, 1, 2, 3}); }, {"at most 3"});
  RandomStream unused(1, Purpose::kSampling);
  expect_error<InvalidArgument>([&] { sampler->draw(1, 2, unused); }, {"cyclic", "whole rounds"});
}

TEST(PrivateSamplers, AreEvenAndResumeFromNothing) {
  for (const auto make : {make_poisson_sampler, make_cyclic_sampler}) {
    const auto sampler = make(20, 4, 6);
    EXPECT_TRUE(sampler->even());
    EXPECT_EQ(sampler->probability(3), 0.05);
    sampler->toggle(Ids{1, 2});
    draw_of(*sampler, 1);
    State state;
    sampler->save(state);
    const auto resumed = make(20, 4, 6);
    resumed->toggle(Ids{9});
    resumed->load(state);
    EXPECT_EQ(resumed->available().size(), 20);
    resumed->toggle(Ids{1, 2});
    for (int64_t round = 2; round < 9; ++round) {
      EXPECT_EQ(draw_of(*resumed, round).clients, draw_of(*sampler, round).clients);
    }
    for (const int64_t wrong : {0, 21}) {
      expect_error<InvalidArgument>([&] { make(20, wrong, 1); }, {"per-round", "[1, 20]"});
    }
  }
}

}  // namespace
}  // namespace hanse
