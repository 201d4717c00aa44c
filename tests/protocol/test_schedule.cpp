#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/comm/balance.hpp"
#include "hanse/protocol/cost_model.hpp"
#include "hanse/protocol/schedule.hpp"

namespace hanse {
namespace {

using Costs = std::vector<double>;
using Items = std::vector<int64_t>;

TEST(LongestFirst, FallingCostsAndEqualOnesByPosition) {
  EXPECT_EQ(longest_first(Costs{}), Items{});
  EXPECT_EQ(longest_first(Costs{1, 3, 2, 3, 1}), (Items{1, 3, 2, 0, 4}));
  EXPECT_EQ(longest_first(Costs{5, 5, 5}), (Items{0, 1, 2}));
}

double longest_load(const Costs& costs, const Items& worker_of, int64_t workers) {
  Costs loads(static_cast<std::size_t>(workers));
  for (std::size_t i = 0; i < costs.size(); ++i) {
    loads[static_cast<std::size_t>(worker_of[i])] += costs[i];
  }
  return *std::max_element(loads.begin(), loads.end());
}

// Over all assignments.
double shortest_load(const Costs& costs, int64_t workers) {
  double best = std::accumulate(costs.begin(), costs.end(), 0.0);
  Items assignment(costs.size());
  for (;;) {
    best = std::min(best, longest_load(costs, assignment, workers));
    std::size_t digit = 0;
    while (digit < assignment.size() && ++assignment[digit] == workers) assignment[digit++] = 0;
    if (digit == assignment.size()) return best;
  }
}

// By trying every worker for every item.
Items balance_slowly(const Costs& costs, const Costs& slowness, const Items& homes, double move) {
  Costs loads(slowness.size());
  Items worker_of(costs.size());
  for (const int64_t item : longest_first(costs)) {
    const auto i = static_cast<std::size_t>(item);
    const auto end = [&](std::size_t w) { return loads[w] + costs[i] * slowness[w]; };
    std::size_t best = 0;
    for (std::size_t w = 1; w < loads.size(); ++w) {
      const double gain = end(best) - end(w);
      if (gain > 0 || (gain == 0 && slowness[w] < slowness[best])) best = w;
    }
    const auto home = static_cast<std::size_t>(homes[i]);
    const bool stays = homes[i] >= 0 && end(home) <= end(best) + move;
    const std::size_t chosen = stays ? home : best;
    loads[chosen] = end(chosen) + (stays || homes[i] < 0 ? 0 : move);
    worker_of[i] = static_cast<int64_t>(chosen);
  }
  return worker_of;
}

TEST(Balance, IsWithinFourThirdsOfTheBest) {
  RandomStream stream(1, Purpose::kData);
  for (int64_t workers = 1; workers <= 3; ++workers) {
    for (std::size_t items = 0; items <= 7; ++items) {
      Costs costs(items);
      for (double& cost : costs) cost = 1 + static_cast<double>(stream.below(9));
      const auto worker_of = balance(costs, workers);
      ASSERT_EQ(worker_of.size(), items);
      for (const int64_t worker : worker_of) EXPECT_TRUE(worker >= 0 && worker < workers);
      const double bound = 4.0 / 3.0 - 1.0 / (3.0 * static_cast<double>(workers));
      EXPECT_LE(longest_load(costs, worker_of, workers),
                bound * shortest_load(costs, workers) + 1e-12);
    }
  }
}

TEST(Balance, ByHand) {
  EXPECT_EQ(balance(Costs{}, 3), Items{});
  EXPECT_EQ(balance(Costs{2, 5, 3}, 1), (Items{0, 0, 0}));
  EXPECT_EQ(balance(Costs{2, 5, 3}, 2), (Items{1, 0, 1}));
  EXPECT_EQ(balance(Costs{1, 1}, 4), (Items{0, 1}));  // ties: the lowest worker
  // Longest first, which is Graham's worst, ends at 7. A swap follows: 3, 3 and 2, 2, 2.
  EXPECT_EQ(balance(Costs{3, 3, 2, 2, 2}, 2), (Items{1, 1, 0, 0, 0}));
}

// At most a third of the way from longest first to the best of all is left; none ends later.
TEST(Balance, SwapsBringItNearTheBest) {
  RandomStream stream(6, Purpose::kData);
  for (int64_t workers = 2; workers <= 3; ++workers) {
    double greedy = 0, swapped = 0, best = 0;
    for (int trial = 0; trial < 40; ++trial) {
      Costs costs(8);
      for (double& cost : costs) cost = 1 + 9 * stream.uniform();
      const Items homeless(costs.size(), -1);
      const double first = longest_load(
          costs, balance_slowly(costs, Costs(static_cast<std::size_t>(workers), 1.0), homeless, 0),
          workers);
      const double second = longest_load(costs, balance(costs, workers), workers);
      EXPECT_LE(second, first + 1e-12);
      greedy += first;
      swapped += second;
      best += shortest_load(costs, workers);
    }
    EXPECT_LT(swapped - best, (greedy - best) / 3);
  }
}

// Also where swaps differ by roundings alone.
TEST(Balance, SwapsEnd) {
  RandomStream stream(8, Purpose::kData);
  for (int trial = 0; trial < 3000; ++trial) {
    Costs costs(static_cast<std::size_t>(2 + stream.below(12)));
    for (double& cost : costs) cost = 0.1 * static_cast<double>(1 + stream.below(40)) / 3;
    const Costs slowness = {1, trial % 2 == 0 ? 1 : 1.25};
    EXPECT_EQ(balance(costs, 2, {}, 0, slowness).size(), costs.size());
  }
}

TEST(Balance, SwapsWithSlowWorkers) {
  // Longest first: 6 to the fast one (6), 5 to the slow one (10), both 4 to the fast one (14). 6
  // for 5: 13 and 12.
  EXPECT_EQ(balance(Costs{6, 5, 4, 4}, 2, {}, 0, Costs{1, 2}), (Items{1, 0, 0, 0}));
  // Longest first: 5 to the fast one (5), 4 to the slow one (8), 3 to the fast one (8). The rest,
  // 2, to the fast one (10). No swap ends earlier: 5 for 4 takes the slow one to 10.
  EXPECT_EQ(balance(Costs{5, 4, 3, 2}, 2, {}, 0, Costs{1, 2}), (Items{0, 1, 0, 0}));
  // Longest first: 6 to the fast one (6), 5 to it (11; 15 there), 4 to the slow one (12). Swapping
  // 4 for 5 makes it worse; 4 for nothing, too.
  EXPECT_EQ(balance(Costs{6, 5, 4}, 2, {}, 0, Costs{1, 3}), (Items{0, 0, 1}));
}

TEST(ByStart, WorkersBeginInThatOrder) {
  EXPECT_EQ(by_start(Costs{}, Items{}), Items{});
  // Worker 0: 5, 2 from 5 on, 1 from 7 on; worker 1: 4, 3 from 4 on.
  EXPECT_EQ(by_start(Costs{1, 2, 3, 4, 5}, Items{0, 0, 1, 1, 0}), (Items{4, 3, 2, 1, 0}));
  // 5 and 6 begin together, then 1 from 5 on.
  EXPECT_EQ(by_start(Costs{1, 5, 6}, Items{0, 0, 1}), (Items{2, 1, 0}));
}

// Free workers that take the next one, all as fast as was believed.
TEST(ByStart, FreeWorkersEndAsPlanned) {
  RandomStream stream(7, Purpose::kData);
  for (int trial = 0; trial < 40; ++trial) {
    Costs costs(10);
    for (double& cost : costs) cost = 1 + 9 * stream.uniform();
    const auto worker_of = balance(costs, 3);
    Costs ends(3);
    for (const int64_t item : by_start(costs, worker_of)) {
      *std::min_element(ends.begin(), ends.end()) += costs[static_cast<std::size_t>(item)];
    }
    EXPECT_NEAR(*std::max_element(ends.begin(), ends.end()), longest_load(costs, worker_of, 3),
                1e-12);
  }
}

// Items with homes: they leave for an idler worker only where that pays for the way.
TEST(Balance, HomesByHand) {
  const auto at = [](const Costs& costs, const Items& homes, double move) {
    return balance(costs, 2, homes, move);
  };
  EXPECT_EQ(at({4, 3, 2}, {-1, -1, -1}, 9), (Items{0, 1, 1}));  // nobody has one
  EXPECT_EQ(at({4, 3, 2}, {1, 1, 1}, 9), (Items{1, 1, 1}));     // too far
  EXPECT_EQ(at({4, 3, 2}, {1, 1, 1}, 0.5),
            (Items{1, 0, 1}));  // 3 leaves 4; then 2 ends at 6 either way
  EXPECT_EQ(at({4, 3, 2}, {1, 1, 1}, 4), (Items{1, 1, 0}));  // 3 stays, for 4 is no longer
  EXPECT_EQ(at({4, 3, 2}, {1, -1, 1}, 0.5), (Items{1, 0, 0}));
  EXPECT_EQ(at({4, 3}, {0, 1}, 0), (Items{0, 1}));  // no way, but no gain
  EXPECT_EQ(at({4, 3}, {1, 0}, 0), (Items{1, 0}));
  EXPECT_EQ(balance(Costs{1, 1}, 1, Items{0, 0}, 0), (Items{0, 0}));
}

TEST(Balance, WithoutHomesIsTheSame) {
  RandomStream stream(3, Purpose::kData);
  for (int64_t workers = 1; workers <= 4; ++workers) {
    Costs costs(9);
    for (double& cost : costs) cost = 1 + static_cast<double>(stream.below(9));
    EXPECT_EQ(balance(costs, workers, Items(9, -1), 5), balance(costs, workers));
  }
}

TEST(Balance, SlowWorkersByHand) {
  EXPECT_EQ(balance(Costs{1, 1, 1, 1}, 2, {}, 0, Costs{1, 3}), (Items{0, 0, 0, 1}));
  EXPECT_EQ(balance(Costs{1, 1, 1}, 2, {}, 0, Costs{1, 4}), (Items{0, 0, 0}));
  EXPECT_EQ(balance(Costs{5, 1, 1}, 2, {}, 0, Costs{2, 1}), (Items{1, 0, 0}));
  EXPECT_EQ(balance(Costs{1, 1, 1}, 2, Items{1, 1, 1}, 0, Costs{1, 3}), (Items{0, 0, 1}));
  EXPECT_EQ(balance(Costs{1, 1, 1}, 2, Items{1, 1, 1}, 2, Costs{1, 3}), (Items{1, 0, 1}));
  EXPECT_EQ(balance(Costs{}, 2, {}, 0, Costs{1, 3}), Items{});
}

TEST(Balance, WithHomesIsThatOfTryingEveryWorker) {
  RandomStream stream(4, Purpose::kData);
  for (int64_t workers = 1; workers <= 5; ++workers) {
    for (int trial = 0; trial < 40; ++trial) {
      Costs costs(static_cast<std::size_t>(stream.below(12)));
      Items homes(costs.size());
      for (double& cost : costs) cost = 1 + static_cast<double>(stream.below(9));
      for (int64_t& home : homes) home = stream.below(workers + 1) - 1;
      if (!homes.empty()) homes[0] = stream.below(workers);  // with homes nothing is swapped
      Costs slowness(static_cast<std::size_t>(workers));
      for (double& one : slowness) one = static_cast<double>(int64_t{1} << stream.below(3));
      const auto move = static_cast<double>(stream.below(6));
      EXPECT_EQ(balance(costs, workers, homes, move, slowness),
                balance_slowly(costs, slowness, homes, move));
    }
  }
}

TEST(PieceLength, IsAboutTenMillisecondsAndFourPiecesAWorker) {
  EXPECT_EQ(piece_length(Costs{}, true, 3), 1);
  EXPECT_EQ(piece_length(Costs(1000, 0.001), false, 3), 1);  // units, not seconds
  EXPECT_EQ(piece_length(Costs(1000, 0.00099), true, 3), 10);
  EXPECT_EQ(piece_length(Costs(1000, 0.0999), true, 3), 1);  // a client a piece
  EXPECT_EQ(piece_length(Costs(24, 1e-6), true, 3), 2);      // 12 pieces for 3 workers
  EXPECT_EQ(piece_length(Costs(5, 1e-6), true, 3), 1);
  EXPECT_EQ(piece_length(Costs(24, 0), true, 3), 1);
}

TEST(CostModel, LearnsSecondsAndSecondsAUnit) {
  CostModel model;
  EXPECT_EQ(model.predict(1, 4), 4);  // nothing measured: the units
  model.observe(std::vector<Measurement>{{.client = 1, .units = 4, .seconds = 8},
                                         {.client = 2, .units = 1, .seconds = 7}});
  EXPECT_EQ(model.predict(1, 100), 8);
  EXPECT_EQ(model.predict(2, 100), 7);
  EXPECT_DOUBLE_EQ(model.predict(3, 2), 7 + 1.0 / 3.0);  // 1 unit takes 7, 4 units 8
  model.observe(std::vector<Measurement>{{.client = 1, .units = 4, .seconds = 6}});
  EXPECT_EQ(model.predict(1, 4), 6);
  EXPECT_DOUBLE_EQ(model.predict(3, 4), 7);  // the mean of 8 and 6
  EXPECT_DOUBLE_EQ(model.predict(3, 1), 7);
  EXPECT_TRUE(model.slowness().empty());
}

TEST(CostModel, KnowsOnlyTheClientsThatItHasMeasured) {
  CostModel model;
  model.observe(std::vector<Measurement>{{.client = 5, .units = 1, .seconds = 3}});
  EXPECT_EQ(model.predict(5, 2), 3);
  EXPECT_EQ(model.predict(2, 2), 6);  // 3 a unit
  EXPECT_EQ(model.predict(9, 2), 6);
}

// The line through the measurements is one that nobody could have measured: the mean instead.
TEST(CostModel, TakesSecondsAUnitWhereTheLineIsNone) {
  const auto predicted = [](Costs units, Costs seconds, double of) {
    CostModel model;
    std::vector<Measurement> measured;
    for (std::size_t i = 0; i < units.size(); ++i) {
      measured.push_back(
          {.client = static_cast<int64_t>(i), .units = units[i], .seconds = seconds[i]});
    }
    model.observe(measured);
    return model.predict(99, of);
  };
  EXPECT_DOUBLE_EQ(predicted({2, 4}, {3, 5}, 10), 11);        // 1 and 1 a unit
  EXPECT_DOUBLE_EQ(predicted({2, 2, 2}, {4, 5, 6}, 10), 25);  // all of one size
  EXPECT_DOUBLE_EQ(predicted({2, 4}, {5, 3}, 6), 8);          // it falls
  EXPECT_DOUBLE_EQ(predicted({2, 4}, {1, 5}, 1), 1);          // 0 units would take -3
}

// Rounds of new clients, all of one unit, spread as balance() says over workers that take so many
// seconds each. Returns how many each worker had in each round.
std::vector<Items> shared_out(CostModel& model, const Costs& seconds, int rounds, int clients,
                              int64_t& next_client) {
  std::vector<Items> counts;
  for (int round = 0; round < rounds; ++round) {
    const auto worker_of =
        balance(Costs(static_cast<std::size_t>(clients), model.predict(next_client, 1)),
                static_cast<int64_t>(seconds.size()), {}, 0, model.slowness());
    Items& count = counts.emplace_back(seconds.size());
    std::vector<Measurement> measured;
    for (const int64_t worker : worker_of) {
      const auto w = static_cast<std::size_t>(worker);
      ++count[w];
      measured.push_back(
          {.client = next_client++, .units = 1, .seconds = seconds[w], .worker = worker});
    }
    model.observe(measured);
  }
  return counts;
}

TEST(CostModel, LearnsWhichWorkersAreSlow) {
  int64_t client = 0;
  CostModel model(4);
  EXPECT_EQ(model.slowness(), Costs(4, 1));
  const auto counts = shared_out(model, {2, 2, 8, 2}, 8, 26, client);
  EXPECT_EQ(counts.front(), (Items{7, 7, 6, 6}));
  EXPECT_EQ(counts.back(), (Items{8, 8, 2, 8}));
  const Costs slowness = model.slowness();
  EXPECT_NEAR(slowness[2] / slowness[0], 4, 0.7);  // a step
  EXPECT_NEAR(model.predict(client, 1) * slowness[0], 2, 0.3);
  // It recovers, and so does the model.
  EXPECT_EQ(shared_out(model, {2, 2, 2, 2}, 8, 28, client).back(), (Items{7, 7, 7, 7}));
}

// Whom balance() gives nothing is tried again.
TEST(CostModel, TriesASlowWorkerAgain) {
  int64_t client = 0;
  CostModel model(3);
  const auto slow = shared_out(model, {1, 1, 40}, 20, 6, client);
  EXPECT_EQ(slow.back()[2], 0);
  const auto fast = shared_out(model, {1, 1, 1}, 60, 6, client);
  EXPECT_EQ(fast.back(), (Items{2, 2, 2}));
}

TEST(CostModel, TakesSmallDifferencesOfWorkersForNoise) {
  int64_t client = 0;
  CostModel model(3);
  shared_out(model, {1, 1.1, 0.92}, 20, 9, client);
  const Costs slowness = model.slowness();
  EXPECT_EQ(slowness, Costs(3, slowness[0]));
}

// One participant a round each, of unlike cost: that is the clients', not the workers'.
TEST(CostModel, LearnsClientsBesideWorkers) {
  CostModel model(2);
  RandomStream stream(5, Purpose::kData);
  const Costs cost = {1, 2, 4, 8};
  const Costs slow = {1, 3};
  for (int round = 0; round < 400; ++round) {
    const int64_t first = stream.below(4);
    const int64_t second = (first + 1 + stream.below(3)) % 4;
    std::vector<Measurement> measured;
    for (const auto& [client, worker] : {std::pair(first, 0), std::pair(second, 1)}) {
      measured.push_back({.client = client,
                          .units = 1,
                          .seconds = cost[static_cast<std::size_t>(client)] *
                                     slow[static_cast<std::size_t>(worker)],
                          .worker = worker});
    }
    model.observe(measured);
  }
  EXPECT_NEAR(model.predict(3, 1) / model.predict(0, 1), 8, 0.5);
  EXPECT_NEAR(model.slowness()[1] / model.slowness()[0], 3, 0.5);
}

TEST(CutEvenly, CoversWithContiguousRangesOfAboutTheSameSum) {
  RandomStream stream(2, Purpose::kData);
  for (int64_t parts = 1; parts <= 5; ++parts) {
    for (const std::size_t n : {0, 1, 3, 40}) {
      Items sizes(n);
      for (int64_t& size : sizes) size = stream.below(10);
      const auto borders = cut_evenly(sizes, parts);
      ASSERT_EQ(borders.size(), static_cast<std::size_t>(parts + 1));
      EXPECT_EQ(borders.front(), 0);
      EXPECT_EQ(borders.back(), static_cast<int64_t>(n));
      EXPECT_TRUE(std::is_sorted(borders.begin(), borders.end()));
      const double total = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), 0));
      for (std::size_t p = 0; p + 1 < borders.size(); ++p) {
        const auto sum =
            std::accumulate(sizes.begin() + borders[p], sizes.begin() + borders[p + 1], int64_t{0});
        EXPECT_LE(static_cast<double>(sum), total / static_cast<double>(parts) + 10);
      }
    }
  }
}

TEST(CutEvenly, ByHand) {
  EXPECT_EQ(cut_evenly(Items{1, 1, 1, 1}, 2), (Items{0, 2, 4}));
  EXPECT_EQ(cut_evenly(Items{6, 1, 1, 1, 3}, 2), (Items{0, 1, 5}));
  EXPECT_EQ(cut_evenly(Items{5, 5}, 2), (Items{0, 1, 2}));
  EXPECT_EQ(cut_evenly(Items{0, 0, 0}, 2).back(), 3);
}

// One rank trains items of these costs in this order; the sum of the counted values times the
// factor.
double estimate_in_time(const std::vector<double>& seconds, const std::vector<double>& values,
                        const std::vector<std::size_t>& order, double limit_s) {
  Deadline deadline(limit_s);
  double elapsed_s = 0;
  double sum = 0;
  for (const std::size_t item : order) {
    if (!deadline.starts(elapsed_s)) continue;
    elapsed_s += seconds[item];
    if (deadline.counts(elapsed_s)) sum += values[item];
  }
  return sum * deadline.factor();
}

// Costs and values that go together: whoever takes long has a large value.
TEST(Deadline, HasTheSumForItsMeanOverAllOrders) {
  const std::vector<double> seconds = {1, 1, 2, 4, 9};
  const std::vector<double> values = {3, -1, 10, 100, 1000};
  for (const double limit_s : {0.5, 1.5, 3.5, 6.5, 8.5, 12.5, 16.5, 17.5}) {
    std::vector<std::size_t> order = {0, 1, 2, 3, 4};
    double sum = 0;
    int orders = 0;
    do {
      sum += estimate_in_time(seconds, values, order, limit_s);
      ++orders;
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_NEAR(sum / orders, 1112, 1e-9) << limit_s << " s";
  }
}

TEST(Deadline, LeavesNobodyOutWhoIsInTime) {
  for (const double limit_s : {0.0, 18.0}) {
    EXPECT_EQ(estimate_in_time({1, 1, 2, 4, 9}, {1, 2, 3, 4, 5}, {0, 1, 2, 3, 4}, limit_s), 15);
  }
}

TEST(Deadline, CountsTheFirstHoweverLongItTakes) {
  EXPECT_EQ(estimate_in_time({7, 1, 1}, {4, 5, 6}, {0, 1, 2}, 2), 12);
  EXPECT_EQ(estimate_in_time({1, 7, 1}, {4, 5, 6}, {0, 1, 2}, 2), 12);
}

}  // namespace
}  // namespace hanse
