#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "support/chi_square.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

RandomStream stream_of(int64_t round) {
  return {1, Purpose::kSampling, static_cast<uint64_t>(round)};
}

// Calls `see` with the draws of so many rounds, as a run would make them.
void draw_rounds(ClientSampler& sampler, int64_t rounds,
                 const std::function<void(const Draw&)>& see) {
  for (int64_t round = 1; round <= rounds; ++round) {
    RandomStream stream = stream_of(round);
    see(sampler.draw(round, sampler.per_round(), stream));
  }
}

std::vector<int64_t> counts_of(const std::map<std::vector<int64_t>, int64_t>& seen) {
  std::vector<int64_t> counts;
  for (const auto& [key, count] : seen) counts.push_back(count);
  return counts;
}

TEST(UniformSampler, EverySubsetInEveryOrderIsEquallyLikely) {
  const auto sampler = make_uniform_sampler(5, 2);
  std::map<std::vector<int64_t>, int64_t> seen;
  draw_rounds(*sampler, 20000, [&](const Draw& draw) { ++seen[draw.clients]; });
  ASSERT_EQ(seen.size(), 20U);  // 5 * 4 ordered pairs
  expect_equally_likely(counts_of(seen));
}

TEST(UniformSampler, EverySubsetOfThreeOfSix) {
  const auto sampler = make_uniform_sampler(6, 3);
  std::map<std::vector<int64_t>, int64_t> seen;
  draw_rounds(*sampler, 20000, [&](const Draw& draw) {
    auto subset = draw.clients;
    std::sort(subset.begin(), subset.end());
    ++seen[subset];
  });
  ASSERT_EQ(seen.size(), 20U);
  expect_equally_likely(counts_of(seen));
}

TEST(UniformSampler, DistinctClientsAndEqualWeights) {
  for (const auto& [clients, per_round] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {7, 1}, {7, 6}, {7, 7}, {1000000, 40}}) {
    const auto sampler = make_uniform_sampler(clients, per_round);
    EXPECT_EQ(sampler->per_round(), per_round);
    EXPECT_EQ(sampler->clients(), clients);
    draw_rounds(*sampler, 50, [&, m = clients, k = per_round](const Draw& draw) {
      const std::set<int64_t> distinct(draw.clients.begin(), draw.clients.end());
      ASSERT_EQ(distinct.size(), static_cast<std::size_t>(k));
      EXPECT_TRUE(*distinct.begin() >= 0 && *distinct.rbegin() < m);
      EXPECT_EQ(draw.counts, std::vector<int64_t>(distinct.size(), 1));
      const double weight = static_cast<double>(m) / static_cast<double>(k);
      EXPECT_EQ(draw.weights, std::vector<double>(distinct.size(), weight));
      const double probability = 1 / static_cast<double>(m);
      EXPECT_EQ(draw.probabilities, std::vector<double>(distinct.size(), probability));
      EXPECT_EQ(draw.everyone, k == m);
    });
  }
}

TEST(UniformSampler, OneOfMIsUniformAndAllOfMComeInAnyOrder) {
  const auto one = make_uniform_sampler(4, 1);
  std::vector<int64_t> counts(4);
  draw_rounds(*one, 8000,
              [&](const Draw& draw) { ++counts[static_cast<std::size_t>(draw.clients.front())]; });
  expect_equally_likely(counts);
  const auto all = make_uniform_sampler(3, 3);
  std::map<std::vector<int64_t>, int64_t> orders;
  draw_rounds(*all, 6000, [&](const Draw& draw) { ++orders[draw.clients]; });
  ASSERT_EQ(orders.size(), 6U);
  expect_equally_likely(counts_of(orders));
}

TEST(UniformSampler, EverySubsetOfThoseWhoAreThere) {
  const auto sampler = make_uniform_sampler(9, 2);
  const std::vector<int64_t> away{0, 3, 4, 8};
  sampler->toggle(away);
  std::map<std::vector<int64_t>, int64_t> seen;
  draw_rounds(*sampler, 20000, [&](const Draw& draw) {
    ++seen[draw.clients];
    EXPECT_EQ(draw.weights, (std::vector<double>{2.5, 2.5}));
    EXPECT_EQ(draw.probabilities, (std::vector<double>{0.2, 0.2}));
    EXPECT_FALSE(draw.everyone);
  });
  ASSERT_EQ(seen.size(), 20U);
  for (const auto& [pair, count] : seen) {
    for (const int64_t client : pair) EXPECT_EQ(std::count(away.begin(), away.end(), client), 0);
  }
  expect_equally_likely(counts_of(seen));
}

TEST(UniformSampler, RefusesAnImpossibleNumber) {
  for (const int64_t per_round : {-1, 0, 6}) {
    expect_error<InvalidArgument>([&] { make_uniform_sampler(5, per_round); },
                                  {"sampler.per-round", "[1, 5]", "5 clients"});
  }
}

// Client and multiplicity, in the order first drawn, by a linear search with the same stream.
Draw slow_weighted(const std::vector<double>& lambda, int64_t per_round, RandomStream stream) {
  Draw draw;
  for (int64_t k = 0; k < per_round; ++k) {
    const double u = stream.uniform();
    int64_t client = -1;
    for (double border = 0; border <= u;) border += lambda[static_cast<std::size_t>(++client)];
    const auto at = std::find(draw.clients.begin(), draw.clients.end(), client);
    if (at == draw.clients.end()) {
      draw.clients.push_back(client);
      draw.counts.push_back(1);
    } else {
      ++draw.counts[static_cast<std::size_t>(at - draw.clients.begin())];
    }
  }
  for (std::size_t i = 0; i < draw.size(); ++i) {  // N_i / (K lambda_i)
    draw.weights.push_back(
        static_cast<double>(draw.counts[i]) /
        (static_cast<double>(per_round) * lambda[static_cast<std::size_t>(draw.clients[i])]));
  }
  return draw;
}

TEST(WeightedSampler, EqualsASlowOne) {
  const std::vector<double> lambda{0.125, 0, 0.5, 0.125, 0.25};  // sums are exact
  const auto sampler = make_weighted_sampler(lambda, 4);
  EXPECT_EQ(sampler->per_round(), 4);
  int64_t round = 0;
  draw_rounds(*sampler, 2000, [&](const Draw& draw) {
    const Draw slow = slow_weighted(lambda, 4, stream_of(++round));
    ASSERT_EQ(draw.clients, slow.clients);
    ASSERT_EQ(draw.counts, slow.counts);
    ASSERT_EQ(draw.weights, slow.weights);
  });
}

TEST(WeightedSampler, DrawsByWeightAndNeverAClientOfWeightZero) {
  const std::vector<double> lambda{0, 0.5, 0.2, 0, 0.3, 0};
  const auto sampler = make_weighted_sampler(lambda, 3);
  std::vector<int64_t> counts(lambda.size());
  draw_rounds(*sampler, 10000, [&](const Draw& draw) {
    for (std::size_t i = 0; i < draw.size(); ++i) {
      counts[static_cast<std::size_t>(draw.clients[i])] += draw.counts[i];
    }
  });
  EXPECT_EQ(counts[0] + counts[3] + counts[5], 0);
  expect_frequencies({counts[1], counts[2], counts[4]}, {0.5, 0.2, 0.3});
}

// The exact expectation over all 27 outcomes of three draws, with the weights the sampler gives.
TEST(WeightedSampler, WeightsHaveExpectationOne) {
  const std::vector<double> lambda{0.5, 0.3, 0.2};
  constexpr int64_t kDraws = 3;
  const auto sampler = make_weighted_sampler(lambda, kDraws);
  std::map<std::vector<int64_t>, std::vector<double>> weights_of;  // by multiplicities
  std::vector<double> empirical(3);
  draw_rounds(*sampler, 20000, [&](const Draw& draw) {
    std::vector<int64_t> multiplicity(3);
    std::vector<double> weights(3);
    for (std::size_t i = 0; i < draw.size(); ++i) {
      const auto client = static_cast<std::size_t>(draw.clients[i]);
      multiplicity[client] = draw.counts[i];
      weights[client] = draw.weights[i];
      empirical[client] += draw.weights[i] / 20000;
    }
    weights_of[multiplicity] = weights;
  });
  ASSERT_EQ(weights_of.size(), 10U);
  std::vector<double> expectation(3);
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) {
      for (std::size_t c = 0; c < 3; ++c) {
        std::vector<int64_t> multiplicity(3);
        ++multiplicity[a], ++multiplicity[b], ++multiplicity[c];
        for (std::size_t i = 0; i < 3; ++i) {
          expectation[i] += lambda[a] * lambda[b] * lambda[c] * weights_of.at(multiplicity)[i];
        }
      }
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(expectation[i], 1, 1e-12);
    const double variance = (1 - lambda[i]) / (kDraws * lambda[i]);
    EXPECT_NEAR(empirical[i], 1, 5 * std::sqrt(variance / 20000));
  }
}

TEST(WeightedSampler, OneClientIsDrawnEveryTime) {
  const std::vector<double> lambda{1};
  for (const int64_t per_round : {1, 2, 5}) {
    const auto sampler = make_weighted_sampler(lambda, per_round);
    draw_rounds(*sampler, 10, [&](const Draw& draw) {
      EXPECT_EQ(draw.clients, std::vector<int64_t>{0});
      EXPECT_EQ(draw.counts, std::vector<int64_t>{per_round});
      EXPECT_EQ(draw.weights, std::vector<double>{1});
    });
  }
}

TEST(FullSampler, EveryClientInOrder) {
  const auto sampler = make_full_sampler(3);
  EXPECT_EQ(sampler->per_round(), 3);
  draw_rounds(*sampler, 3, [&](const Draw& draw) {
    EXPECT_EQ(draw.clients, (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(draw.counts, (std::vector<int64_t>{1, 1, 1}));
    EXPECT_EQ(draw.weights, (std::vector<double>{1, 1, 1}));
    EXPECT_TRUE(draw.everyone);
  });
}

TEST(FullSampler, EveryoneWhoIsThere) {
  const auto sampler = make_full_sampler(130);
  std::vector<int64_t> there(130);
  std::iota(there.begin(), there.end(), 0);
  for (const int64_t client : {129, 64, 0}) {
    sampler->toggle(std::span(&client, 1));
    there.erase(std::find(there.begin(), there.end(), client));
    RandomStream stream = stream_of(1);
    const Draw draw = sampler->draw(1, sampler->per_round(), stream);
    EXPECT_EQ(draw.clients, there);
    EXPECT_EQ(draw.weights, std::vector<double>(there.size(), 1));
    EXPECT_TRUE(draw.everyone);
  }
}

}  // namespace
}  // namespace hanse
