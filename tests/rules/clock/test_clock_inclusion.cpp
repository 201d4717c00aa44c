// Who counts when more are drawn than count: the closed form against counting and drawing.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/rules/clock/inclusion.hpp"
#include "hanse/rules/sampling/basic.hpp"

namespace hanse {
namespace {

// Calls see(the K fastest) for every draw of n of the clients; how many draws.
template <class See>
int64_t each_draw(std::span<const Ticks> durations, int64_t n, int64_t k, See see) {
  const auto m = static_cast<int64_t>(durations.size());
  int64_t draws = 0;
  for (uint64_t members = 0; members < uint64_t{1} << m; ++members) {
    std::vector<std::size_t> drawn;
    for (int64_t i = 0; i < m; ++i) {
      if (members >> i & 1U) drawn.push_back(static_cast<std::size_t>(i));
    }
    if (static_cast<int64_t>(drawn.size()) != n) continue;
    std::stable_sort(drawn.begin(), drawn.end(),
                     [&](std::size_t a, std::size_t b) { return durations[a] < durations[b]; });
    drawn.resize(static_cast<std::size_t>(k));
    see(drawn);
    ++draws;
  }
  return draws;
}

TEST(Inclusion, IsTheShareOfAllDrawsInWhichAClientCounts) {
  const std::vector<Ticks> durations{30, 10, 20, 10, 50, 40, 10, 60};  // with ties
  for (int64_t m = 1; m <= 8; ++m) {
    const std::span first(durations.data(), static_cast<std::size_t>(m));
    for (int64_t n = 1; n <= m; ++n) {
      for (int64_t k = 1; k <= n; ++k) {
        std::vector<double> counted(first.size());
        const int64_t draws = each_draw(first, n, k, [&](const auto& fastest) {
          for (const std::size_t i : fastest) ++counted[i];
        });
        const auto p = inclusion_probabilities(first, n, k);
        for (std::size_t i = 0; i < counted.size(); ++i) {
          EXPECT_NEAR(p[i], counted[i] / static_cast<double>(draws), 1e-14) << m << n << k << i;
          EXPECT_EQ(p[i] == 0, counted[i] == 0) << m << n << k << i;
        }
      }
    }
  }
}

TEST(Inclusion, HasTheKnownNumbers) {
  const std::vector<Ticks> six{1, 2, 3, 4, 5, 6};
  const double expected[] = {2 / 3.0, 2 / 3.0, 2 / 3.0, 3 / 5.0, 2 / 5.0, 0};
  const auto p = inclusion_probabilities(six, 4, 3);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(p[i], expected[i], 1e-15);
  std::vector<Ticks> hundred(100);
  std::iota(hundred.begin(), hundred.end(), 1);
  const auto q = inclusion_probabilities(hundred, 13, 10);
  EXPECT_NEAR(q[0], 0.13, 1e-4);
  EXPECT_NEAR(q[50], 0.128, 1e-4);
  EXPECT_NEAR(q[75], 0.0776, 1e-4);
  EXPECT_NEAR(q[90], 0.0099, 1e-4);
  EXPECT_EQ(q[99], 0);
}

TEST(Inclusion, IsHowOftenClientsCountInDraws) {
  constexpr int64_t kDraws = 100000;
  std::vector<Ticks> durations(100);
  std::iota(durations.rbegin(), durations.rend(), 1);
  const auto p = inclusion_probabilities(durations, 13, 10);
  const auto sampler = make_uniform_sampler(100, 13);
  std::vector<double> counted(100);
  for (int64_t round = 1; round <= kDraws; ++round) {
    RandomStream stream(2, Purpose::kSampling, static_cast<uint64_t>(round));
    auto clients = sampler->draw(round, 13, stream).clients;
    std::sort(clients.rbegin(), clients.rend());  // client 99 is the fastest
    for (std::size_t i = 0; i < 10; ++i) ++counted[static_cast<std::size_t>(clients[i])];
  }
  for (std::size_t i = 0; i < 100; ++i) {
    const double deviation = std::sqrt(p[i] * (1 - p[i]) / kDraws);
    EXPECT_NEAR(counted[i] / kDraws, p[i], 4 * deviation) << i;
  }
}

TEST(Inclusion, SumsToTheNumberThatCountsForManyClients) {
  std::vector<Ticks> durations(100000);
  std::iota(durations.begin(), durations.end(), 1);
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{130, 100},
                             {100, 100},
                             {13000, 10000},
                             {99999, 50000},
                             {100000, 1},
                             {50000, 1},
                             {2, 1}}) {
    const auto p = inclusion_probabilities(durations, n, k);
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    EXPECT_NEAR(sum / static_cast<double>(k), 1, 1e-11) << n << " " << k;
    EXPECT_TRUE(std::is_sorted(p.rbegin(), p.rend()));
    const auto nobody = static_cast<std::size_t>(100000 - n + k);
    if (nobody < 100000) {
      EXPECT_EQ(p[nobody], 0);
    }
    EXPECT_GT(p[std::min<std::size_t>(nobody, 100000) - 1], 0);
  }
}

// A linear model makes one full-batch step along sum lambda_i/pi_i g_i over those that count.
TEST(Inclusion, MakesTheMeanStepThatOfAllReachableClients) {
  const std::vector<Ticks> durations{5, 3, 9, 1, 7, 8};
  const std::vector<double> lambda{0.1, 0.3, 0.15, 0.2, 0.05, 0.2};
  const std::vector<double> gradient{2, -1, 4, 0.5, -3, 1};
  for (int64_t n = 1; n <= 6; ++n) {
    for (int64_t k = 1; k <= n; ++k) {
      const auto p = inclusion_probabilities(durations, n, k);
      double step = 0, mean = 0;
      const int64_t draws = each_draw(durations, n, k, [&](const auto& fastest) {
        for (const std::size_t i : fastest) mean += lambda[i] / p[i] * gradient[i];
      });
      for (std::size_t i = 0; i < 6; ++i) step += p[i] > 0 ? lambda[i] * gradient[i] : 0;
      EXPECT_NEAR(mean / static_cast<double>(draws), step, 1e-12) << n << " " << k;
      const Unreachable never = unreachable(p, lambda);
      EXPECT_EQ(never.clients, std::count(p.begin(), p.end(), 0.0));
      EXPECT_EQ(never.clients, n - k);  // the slowest ones
    }
  }
  const auto p = inclusion_probabilities(durations, 5, 3);
  EXPECT_NEAR(unreachable(p, lambda).share, 0.15 + 0.2, 1e-15);
}

}  // namespace
}  // namespace hanse
