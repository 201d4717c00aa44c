#include "hanse/protocol/schedule.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace hanse {

std::vector<int64_t> longest_first(std::span<const double> costs) {
  std::vector<int64_t> order(costs.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return costs[static_cast<std::size_t>(a)] > costs[static_cast<std::size_t>(b)];
  });
  return order;
}

std::vector<int64_t> balance(std::span<const double> costs, int64_t workers,
                             std::span<const int64_t> homes, double move) {
  std::vector<double> loads(static_cast<std::size_t>(workers));
  std::set<std::pair<double, int64_t>> by_load;  // with the worker: ties go to the lowest
  for (int64_t w = 0; w < workers; ++w) by_load.emplace(0.0, w);
  std::vector<int64_t> worker_of(costs.size());
  for (const int64_t item : longest_first(costs)) {
    const auto i = static_cast<std::size_t>(item);
    const int64_t home = homes.empty() ? -1 : homes[i];
    const auto [least, idlest] = *by_load.begin();
    const bool stays = home >= 0 && loads[static_cast<std::size_t>(home)] <= least + move;
    const int64_t chosen = stays ? home : idlest;
    double& load = loads[static_cast<std::size_t>(chosen)];
    by_load.erase({load, chosen});
    load += costs[i] + (stays || home < 0 ? 0 : move);
    by_load.emplace(load, chosen);
    worker_of[i] = chosen;
  }
  return worker_of;
}

std::vector<int64_t> draw_order(std::span<const double> costs) {
  std::vector<int64_t> order(costs.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

std::vector<int64_t> balance_cohorts(std::span<const double> costs, int64_t cohort,
                                     int64_t workers) {
  const auto size = static_cast<std::size_t>(cohort);
  std::vector<double> sums((costs.size() + size - 1) / size);
  for (std::size_t i = 0; i < costs.size(); ++i) sums[i / size] += costs[i];
  const auto worker_of_cohort = balance(sums, workers);
  std::vector<int64_t> worker_of(costs.size());
  for (std::size_t i = 0; i < costs.size(); ++i) worker_of[i] = worker_of_cohort[i / size];
  return worker_of;
}

int64_t piece_length(std::span<const double> costs, bool seconds, int64_t workers) {
  constexpr double kPiece_s = 0.01;
  const double total = std::accumulate(costs.begin(), costs.end(), 0.0);
  if (!seconds || total <= 0) return 1;
  const auto n = static_cast<int64_t>(costs.size());
  const double wanted = std::min(kPiece_s * static_cast<double>(n) / total, static_cast<double>(n));
  return std::clamp(static_cast<int64_t>(wanted), int64_t{1},
                    std::max(int64_t{1}, n / (4 * workers)));
}

double CostModel::predict(int64_t client, double units) const {
  const auto found = seconds_of_.find(client);
  if (found != seconds_of_.end()) return found->second;
  return units_ > 0 ? units * seconds_ / units_ : units;
}

void CostModel::observe(int64_t client, double units, double seconds) {
  seconds_of_[client] = seconds;
  units_ += units;
  seconds_ += seconds;
}

std::vector<int64_t> cut_evenly(std::span<const int64_t> sizes, int64_t parts) {
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<int64_t> borders{0};
  int64_t at = 0;
  int64_t sum = 0;
  for (int64_t part = 1; part <= parts; ++part) {
    const int64_t goal = total * part / parts;
    while (at < static_cast<int64_t>(sizes.size()) && (part == parts || sum < goal)) {
      sum += sizes[static_cast<std::size_t>(at++)];
    }
    borders.push_back(at);
  }
  return borders;
}

bool Deadline::starts(double elapsed_s) {
  ++came_;
  return counted_ == 0 || !is_up(elapsed_s);
}

bool Deadline::counts(double elapsed_s) {
  if (counted_ > 0 && is_up(elapsed_s)) return false;
  ++counted_;
  return true;
}

double Deadline::factor() const {
  return counted_ == 0 ? 1 : static_cast<double>(came_) / static_cast<double>(counted_);
}

}  // namespace hanse
