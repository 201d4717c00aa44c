// Rounds as the aggregation rules see them, and slow obvious solvers to compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

using Numbers = std::vector<double>;
using Ids = std::vector<int64_t>;

inline std::size_t at(int64_t client) { return static_cast<std::size_t>(client); }

inline Ids all_clients(int64_t clients) {
  Ids ids(at(clients));
  std::iota(ids.begin(), ids.end(), int64_t{0});
  return ids;
}

inline double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

inline double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// One round's mix. `weights` are the draw's; empty: 1 each.
inline Mix mix_round(Aggregator& rule, int64_t round, const Ids& ids, const Numbers& losses,
                     Numbers weights = {}) {
  if (weights.empty()) weights.assign(ids.size(), 1.0);
  const Numbers lambda(ids.size(), 1.0 / static_cast<double>(ids.size()));
  return rule.mix({.round = round,
                   .clients = ids,
                   .lambda = lambda,
                   .draw_weights = weights,
                   .losses = losses});
}

inline void expect_near(const Numbers& values, const Numbers& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance) << "entry " << i << " of " << values.size();
  }
}

// Losses of very different size, from 0.05 to 5.
inline Numbers random_losses(std::size_t count, RandomStream& random) {
  Numbers losses(count);
  for (double& loss : losses) loss = 0.05 * std::pow(100.0, random.uniform());
  return losses;
}

// `count` distinct clients, in random order.
inline Ids random_clients(int64_t clients, int64_t count, RandomStream& random) {
  Ids ids = all_clients(clients);
  random.shuffle(std::span(ids));
  ids.resize(at(count));
  return ids;
}

// Calls visit(ids) for every subset of `count` of the clients.
inline void for_subsets(int64_t clients, int64_t count,
                        const std::function<void(const Ids&)>& visit) {
  for (int64_t bits = 0; bits < (int64_t{1} << clients); ++bits) {
    Ids ids;
    for (int64_t i = 0; i < clients; ++i) {
      if ((bits >> i) & 1) ids.push_back(i);
    }
    if (static_cast<int64_t>(ids.size()) == count) visit(ids);
  }
}

// max(0, v - tau) with sum 1, tau by bisection.
inline Numbers bisect_projection(const Numbers& v) {
  double low = *std::min_element(v.begin(), v.end()) - 1;
  double high = *std::max_element(v.begin(), v.end());
  const auto sum_above = [&](double tau) {
    double sum = 0;
    for (const double x : v) sum += std::max(0.0, x - tau);
    return sum;
  };
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    (sum_above(middle) > 1 ? low : high) = middle;
  }
  Numbers p(v.size());
  std::transform(v.begin(), v.end(), p.begin(), [&](double x) { return std::max(0.0, x - low); });
  return p;
}

// argmin over the simplex of a smooth function by accelerated projected gradient, to rounding.
// Its curvature lies in [strong, steep].
inline Numbers slow_minimum(const std::function<Numbers(const Numbers&)>& gradient, Numbers p,
                            double strong, double steep) {
  const double root = std::sqrt(strong / steep);
  const double momentum = (1 - root) / (1 + root);
  Numbers ahead = p;
  int still = 0;
  for (int step = 0; step < 100000 && still < 10; ++step) {
    Numbers next = ahead;
    const Numbers slope = gradient(ahead);
    for (std::size_t i = 0; i < p.size(); ++i) next[i] -= slope[i] / steep;
    next = bisect_projection(next);
    double moved = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      moved = std::max(moved, std::abs(next[i] - p[i]));
      ahead[i] = next[i] + momentum * (next[i] - p[i]);
    }
    p = next;
    still = moved < 1e-15 ? still + 1 : 0;
  }
  return p;
}

// Sum over rounds of -log(1 + p.r).
inline double decision_loss(const Numbers& p, const std::vector<Numbers>& responses) {
  double loss = 0;
  for (const Numbers& r : responses) loss -= std::log1p(dot(p, r));
  return loss;
}

// A lower bound on the loss of the best fixed decision, close to it: the multiplicative iteration
// p_i <- p_i mean_t (1 + r_i) / (1 + p.r), whose largest factor bounds what is left to gain
// (Cover 1984).
inline double best_fixed_loss(const std::vector<Numbers>& responses) {
  const std::size_t k = responses.front().size();
  const auto rounds = static_cast<double>(responses.size());
  Numbers p(k, 1.0 / static_cast<double>(k));
  double largest = 1;
  for (int step = 0; step < 3000; ++step) {
    Numbers factor(k);
    for (const Numbers& r : responses) {
      const double growth = 1 + dot(p, r);
      for (std::size_t i = 0; i < k; ++i) factor[i] += (1 + r[i]) / growth / rounds;
    }
    largest = *std::max_element(factor.begin(), factor.end());
    if (largest < 1 + 1e-9) break;
    for (std::size_t i = 0; i < k; ++i) p[i] *= factor[i];
  }
  return decision_loss(p, responses) - rounds * std::log(largest);
}

// An adversary's losses, seeing the decision.
using Adversary = std::function<Numbers(int64_t round, const Numbers& decision)>;

// All of the loss on one client.
inline Numbers one_hot(std::size_t clients, std::size_t which) {
  Numbers losses(clients);
  losses[which] = 1;
  return losses;
}

struct Game {
  double regret = 0;          // at least the true one
  double regret_uniform = 0;  // of playing 1/K throughout
};

// Plays `rounds` rounds in which every client takes part.
inline Game play(Aggregator& rule, int64_t rounds, const Adversary& adversary) {
  std::vector<Numbers> responses;
  double loss = 0;
  for (int64_t t = 1; t <= rounds; ++t) {
    const Numbers p = rule.decision();
    const Numbers losses = adversary(t, p);
    const auto clients = static_cast<int64_t>(losses.size());
    responses.push_back(mix_round(rule, t, all_clients(clients), losses).response);
    loss -= std::log1p(dot(p, responses.back()));
  }
  const double best = best_fixed_loss(responses);
  const std::size_t k = responses.front().size();
  const double uniform = decision_loss(Numbers(k, 1.0 / static_cast<double>(k)), responses);
  return {.regret = loss - best, .regret_uniform = uniform - best};
}

// Sequences that are hard for different reasons.
inline std::vector<Adversary> adversaries(std::size_t k) {
  const auto least = [](const Numbers& p) {
    return static_cast<std::size_t>(std::min_element(p.begin(), p.end()) - p.begin());
  };
  return {
      [k](int64_t t, const Numbers&) { return one_hot(k, at(t) % 2); },
      [k](int64_t t, const Numbers&) { return one_hot(k, at(t) % k); },
      [k](int64_t, const Numbers&) { return one_hot(k, k - 1); },
      // A trend that turns.
      [k](int64_t t, const Numbers&) { return one_hot(k, t % 150 < 75 ? 0 : k - 1); },
      [k, least](int64_t, const Numbers& p) { return one_hot(k, least(p)); },
      [k](int64_t t, const Numbers&) {
        RandomStream random(3, Purpose::kData, static_cast<uint64_t>(t));
        return random_losses(k, random);
      },
  };
}

}  // namespace hanse
