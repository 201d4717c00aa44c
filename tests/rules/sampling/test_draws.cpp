// How often the samplers draw whom.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/sampling/basic.hpp"
#include "rules/sampling/sampler_roster.hpp"
#include "support/chi_square.hpp"

namespace hanse {
namespace {

std::size_t index(int64_t i) { return static_cast<std::size_t>(i); }

// A sampler after two rounds, so that some clients have been drawn and others not.
std::unique_ptr<ClientSampler> sampler_of(const SamplerCase& kind, int64_t clients,
                                          int64_t per_round) {
  auto sampler = kind.make(clients, per_round);
  play_round(*sampler, 1);
  play_round(*sampler, 2);
  return sampler;
}

// The distribution of a draw from those not away, p / sum p.
std::vector<double> share_of(const ClientSampler& sampler, const std::vector<int64_t>& away) {
  auto p = probabilities_of(sampler);
  for (const int64_t client : away) p[index(client)] = 0;
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

bool is_full(const SamplerCase& kind) { return kind.name == "full"; }

TEST(Draws, FirstDrawnFollowTheProbabilities) {
  const std::vector<std::vector<int64_t>> aways{{}, {2, 5, 11}, {0, 1, 3, 4, 6, 7, 9, 10}};
  for (const SamplerCase& kind : sampler_roster()) {
    if (is_full(kind)) continue;
    for (const auto& away : aways) {
      SCOPED_TRACE(kind.name + ", " + std::to_string(away.size()) + " away");
      const auto sampler = sampler_of(kind, 13, 3);
      if (sampler->needs_all_clients()) sampler->observe_all(round_gradients(13, 3));
      sampler->toggle(away);
      const auto share = share_of(*sampler, away);
      std::vector<int64_t> seen(13);
      for (int64_t round = 1; round <= 20000; ++round) {
        RandomStream stream(9, Purpose::kSampling, static_cast<uint64_t>(round));
        const Draw draw = sampler->draw(round, sampler->per_round(), stream);
        ++seen[index(draw.clients.front())];
        ASSERT_DOUBLE_EQ(draw.probabilities.front(), share[index(draw.clients.front())]);
      }
      std::vector<int64_t> counts;
      std::vector<double> expected;
      for (std::size_t m = 0; m < 13; ++m) {
        if (share[m] > 0) {
          counts.push_back(seen[m]);
          expected.push_back(share[m]);
        } else {
          EXPECT_EQ(seen[m], 0);
        }
      }
      expect_frequencies(counts, expected);
    }
  }
}

// With replacement the draws are independent: the later ones follow the same law.
TEST(Draws, CountsWithReplacementFollowTheProbabilities) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (!kind.replacement) continue;
    SCOPED_TRACE(kind.name);
    const auto sampler = sampler_of(kind, 6, 4);
    if (sampler->needs_all_clients()) sampler->observe_all(round_gradients(6, 3));
    std::vector<int64_t> seen(6);
    for (int64_t round = 1; round <= 10000; ++round) {
      RandomStream stream(9, Purpose::kSampling, static_cast<uint64_t>(round));
      const Draw draw = sampler->draw(round, sampler->per_round(), stream);
      ASSERT_EQ(draw.draws(), 4);
      for (std::size_t i = 0; i < draw.size(); ++i) seen[index(draw.clients[i])] += draw.counts[i];
    }
    expect_frequencies(seen, probabilities_of(*sampler));
  }
}

// A round draws four of five clients without replacement: every order has the product of its
// conditional probabilities, and tells the client left out.
TEST(Draws, OrdersWithoutReplacement) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (kind.replacement || is_full(kind)) continue;
    SCOPED_TRACE(kind.name);
    const auto sampler = sampler_of(kind, 5, 4);
    if (sampler->needs_all_clients()) sampler->observe_all(round_gradients(5, 3));
    const auto p = probabilities_of(*sampler);
    std::vector<int64_t> order{0, 1, 2, 3, 4};  // the last is left out
    std::vector<std::vector<int64_t>> orders;
    std::vector<double> expected;
    do {
      double left = 1;
      expected.push_back(1);
      for (int j = 0; j < 4; ++j) {
        expected.back() *= p[index(order[index(j)])] / left;
        left -= p[index(order[index(j)])];
      }
      orders.emplace_back(order.begin(), order.end() - 1);
    } while (std::next_permutation(order.begin(), order.end()));
    ASSERT_TRUE(std::is_sorted(orders.begin(), orders.end()));
    std::vector<int64_t> counts(orders.size());
    for (int64_t round = 1; round <= 60000; ++round) {
      RandomStream stream(9, Purpose::kSampling, static_cast<uint64_t>(round));
      const auto drawn = sampler->draw(round, sampler->per_round(), stream).clients;
      ++counts[index(std::lower_bound(orders.begin(), orders.end(), drawn) - orders.begin())];
    }
    expect_frequencies(counts, expected);
  }
}

TEST(Draws, NobodyIsThere) {
  for (const SamplerCase& kind : sampler_roster()) {
    SCOPED_TRACE(kind.name);
    const auto sampler = sampler_of(kind, 4, 2);
    if (sampler->needs_all_clients()) sampler->observe_all(round_gradients(4, 3));
    const auto before = probabilities_of(*sampler);
    sampler->toggle(std::vector<int64_t>{2, 0, 3, 1});
    const Draw draw = play_round(*sampler, 3);
    EXPECT_EQ(draw.size(), 0U);
    EXPECT_EQ(draw.draws(), 0);
    EXPECT_TRUE(draw.probabilities.empty() && draw.weights.empty());
    if (sampler->needs_all_clients()) continue;
    EXPECT_EQ(probabilities_of(*sampler), before);
  }
}

TEST(Draws, NotMoreThanDrawnAllTakePartAndNothingIsLearnt) {
  for (const SamplerCase& kind : sampler_roster()) {
    for (const auto& away : std::vector<std::vector<int64_t>>{{0, 4}, {1, 2, 5}, {0, 1, 2, 3, 4}}) {
      SCOPED_TRACE(kind.name + ", " + std::to_string(away.size()) + " away");
      const auto sampler = sampler_of(kind, 6, 4);
      if (sampler->needs_all_clients()) sampler->observe_all(round_gradients(6, 3));
      const auto before = probabilities_of(*sampler);
      const auto theta = sampler->expert_weights();
      const auto share = share_of(*sampler, away);
      sampler->toggle(away);
      const Draw draw = play_round(*sampler, 3);
      EXPECT_TRUE(draw.everyone);
      ASSERT_EQ(draw.size(), 6 - away.size());
      EXPECT_EQ(draw.counts, std::vector<int64_t>(draw.size(), 1));
      EXPECT_EQ(draw.weights, std::vector<double>(draw.size(), 1));
      const std::set<int64_t> distinct(draw.clients.begin(), draw.clients.end());
      EXPECT_EQ(distinct.size(), draw.size());
      for (std::size_t i = 0; i < draw.size(); ++i) {
        EXPECT_EQ(std::count(away.begin(), away.end(), draw.clients[i]), 0);
        EXPECT_NEAR(draw.probabilities[i], share[index(draw.clients[i])], 1e-15);
      }
      EXPECT_EQ(sampler->expert_weights(), theta);
      if (sampler->needs_all_clients()) continue;
      EXPECT_EQ(probabilities_of(*sampler), before);
    }
  }
}

TEST(Draws, ComingAndGoingBetweenRoundsLeavesNoTrace) {
  const std::vector<int64_t> some{3, 1, 40, 12};
  const std::vector<int64_t> others{1, 40, 25};
  for (const SamplerCase& kind : sampler_roster()) {
    SCOPED_TRACE(kind.name);
    const auto still = kind.make(41, 5);
    const auto restless = kind.make(41, 5);
    for (int64_t round = 1; round <= 30; ++round) {
      restless->toggle(some);
      restless->toggle(others);
      if (round % 3 == 0) draw_round(*restless, 1000 + round);
      restless->toggle(some);
      restless->toggle(others);
      expect_same(play_round(*restless, round), play_round(*still, round));
      EXPECT_EQ(probabilities_of(*restless), probabilities_of(*still));
    }
  }
}

// The participants of a round may be gone by the time that their gradients arrive.
TEST(Draws, LearningDoesNotDependOnWhoHasLeftSince) {
  for (const SamplerCase& kind : sampler_roster()) {
    SCOPED_TRACE(kind.name);
    const auto still = kind.make(11, 3);
    const auto restless = kind.make(11, 3);
    for (int64_t round = 1; round <= 10; ++round) {
      play_round(*still, round);
      const Draw draw = draw_round(*restless, round);
      const auto all = round_gradients(11, round);
      std::vector<double> a;
      for (const int64_t client : draw.clients) a.push_back(all[index(client)]);
      restless->toggle(draw.clients);
      restless->observe(draw, {.a = a, .losses = a});
      const auto p = probabilities_of(*still);
      for (int64_t m = 0; m < 11; ++m) ASSERT_NEAR(restless->probability(m), p[index(m)], 1e-13);
      restless->toggle(draw.clients);
    }
  }
}

TEST(Draws, ClientsWithoutMassAreNeverDrawn) {
  std::vector<double> a(70);
  for (std::size_t m = 0; m < 70; m += 10) a[m] = 1e-30 * std::pow(10.0, static_cast<double>(m));
  for (const bool replacement : {true, false}) {
    const auto optimal = make_optimal_sampler(70, 4, replacement);
    optimal->observe_all(a);
    const auto weighted = make_weighted_sampler(a, 4, replacement);
    for (ClientSampler* sampler : {optimal.get(), weighted.get()}) {
      for (int64_t round = 1; round <= 3000; ++round) {
        RandomStream stream(9, Purpose::kSampling, static_cast<uint64_t>(round));
        if (round == 1000) sampler->toggle(std::vector<int64_t>{60, 50, 1, 2});
        for (const int64_t client : sampler->draw(round, sampler->per_round(), stream).clients) {
          ASSERT_GT(a[index(client)], 0) << client;
        }
      }
    }
  }
}

// Where only two have mass, a draw of three without replacement ends with them, still unbiased.
TEST(Draws, WithoutReplacementEndWithTheMass) {
  const auto sampler = make_weighted_sampler(std::vector<double>{0, 1, 0, 3, 0}, 3, false);
  std::vector<int64_t> first(2);
  for (int64_t round = 1; round <= 4000; ++round) {
    const Draw draw = draw_round(*sampler, round);
    ASSERT_EQ(draw.size(), 2U);
    ++first[draw.clients[0] == 1 ? 0 : 1];
    const double p = draw.clients[0] == 1 ? 0.25 : 0.75;
    EXPECT_DOUBLE_EQ(draw.weights[0], (1 / p + 1) / 2);
    EXPECT_DOUBLE_EQ(draw.weights[1], 0.5);
  }
  expect_frequencies(first, {0.25, 0.75});
}

// Nobody who is there has mass, though enough are there: nobody is drawn.
TEST(Draws, NobodyWithMassIsThere) {
  for (const bool replacement : {true, false}) {
    const auto sampler = make_weighted_sampler(std::vector<double>{0, 1, 0, 0, 0}, 2, replacement);
    sampler->toggle(std::vector<int64_t>{1});
    EXPECT_EQ(draw_round(*sampler, 1).size(), 0U);
    sampler->toggle(std::vector<int64_t>{1});
    EXPECT_EQ(draw_round(*sampler, 2).clients, std::vector<int64_t>{1});
  }
}

TEST(Draws, OptimalIsUniformWhereEveryGradientIsZero) {
  const auto sampler = make_optimal_sampler(4, 2);
  EXPECT_EQ(probabilities_of(*sampler), std::vector<double>(4, 0.25));  // before the first
  sampler->observe_all(std::vector<double>{1, 4, 0, 0});
  EXPECT_DOUBLE_EQ(sampler->probability(1), 2.0 / 3);
  sampler->observe_all(std::vector<double>(4));
  EXPECT_EQ(probabilities_of(*sampler), std::vector<double>(4, 0.25));
}

}  // namespace
}  // namespace hanse
