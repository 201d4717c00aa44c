#include "hanse/protocol/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "hanse/base/index.hpp"

namespace hanse {

bool server_trains(const std::string& role, int64_t ranks, bool one_host) {
  if (ranks == 1) return true;
  return role == "auto" ? one_host : role == "shared";
}

Dispatch choose_dispatch(bool is_open, int64_t ranks, bool one_host, bool server_trains) {
  if (!is_open || ranks == 1) return Dispatch::kPlanned;
  if (one_host) return Dispatch::kSharedQueue;
  return server_trains ? Dispatch::kPlanned : Dispatch::kServedQueue;
}

std::vector<int64_t> longest_first(std::span<const double> costs) {
  std::vector<int64_t> order(costs.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return costs[to_index(a)] > costs[to_index(b)]; });
  return order;
}

namespace {

// Workers with what they have to do.
class Loads {
 public:
  Loads(int64_t workers, std::span<const double> slowness)
      : slowness_(slowness.begin(), slowness.end()), loads_(to_index(workers)) {
    slowness_.resize(loads_.size(), 1.0);
    for (int64_t w = 0; w < workers; ++w) by_load_[slowness_[to_index(w)]].emplace(0.0, w);
  }

  double end(int64_t worker, double cost) const {
    return loads_[to_index(worker)] + cost * slowness_[to_index(worker)];
  }

  // Where an item of this cost ends first: of workers of one speed, on the least loaded. Ties go to
  // the faster, then to the lowest.
  int64_t first(double cost) const {
    int64_t best = -1;
    for (const auto& [slowness, workers] : by_load_) {
      const int64_t worker = workers.begin()->second;
      if (best < 0 || end(worker, cost) < end(best, cost)) best = worker;
    }
    return best;
  }

  void add(int64_t worker, double cost, double move) {
    auto& workers = by_load_[slowness_[to_index(worker)]];
    workers.erase({loads_[to_index(worker)], worker});
    loads_[to_index(worker)] = end(worker, cost) + move;
    workers.emplace(loads_[to_index(worker)], worker);
  }

 private:
  std::vector<double> slowness_;
  std::vector<double> loads_;
  std::map<double, std::set<std::pair<double, int64_t>>> by_load_;  // of each slowness
};

// REQUIRES: values.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<int64_t> balance(std::span<const double> costs, int64_t workers,
                             std::span<const int64_t> homes, double move,
                             std::span<const double> slowness) {
  Loads loads(workers, slowness);
  std::vector<int64_t> worker_of(costs.size());
  for (const int64_t item : longest_first(costs)) {
    const auto i = to_index(item);
    const int64_t home = homes.empty() ? -1 : homes[i];
    const int64_t first = loads.first(costs[i]);
    const bool stays = home >= 0 && loads.end(home, costs[i]) <= loads.end(first, costs[i]) + move;
    worker_of[i] = stays ? home : first;
    loads.add(worker_of[i], costs[i], stays || home < 0 ? 0 : move);
  }
  return worker_of;
}

std::vector<int64_t> balance_groups(std::span<const double> costs, int64_t group, int64_t workers,
                                    std::span<const double> slowness) {
  const auto size = to_index(group);
  std::vector<double> sums((costs.size() + size - 1) / size);
  for (std::size_t i = 0; i < costs.size(); ++i) sums[i / size] += costs[i];
  const auto worker_of_group = balance(sums, workers, {}, 0, slowness);
  std::vector<int64_t> worker_of(costs.size());
  for (std::size_t i = 0; i < costs.size(); ++i) worker_of[i] = worker_of_group[i / size];
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

std::vector<double> CostModel::slowness() const {
  if (slowness_.empty()) return {};
  constexpr double kStep = 1.25;
  const double middle = median(slowness_);
  std::vector<double> stepped;
  for (const double slowness : slowness_) {
    stepped.push_back(middle *
                      std::pow(kStep, std::round(std::log(slowness / middle) / std::log(kStep))));
  }
  return stepped;
}

void CostModel::observe(std::span<const Measurement> round) {
  observe_workers(round);
  for (const Measurement& one : round) {
    const double slowness = slowness_.empty() ? 1 : slowness_[to_index(one.worker)];
    seconds_of_[one.client] = one.seconds / slowness;
    units_ += one.units;
    seconds_ += one.seconds / slowness;
  }
}

void CostModel::observe_workers(std::span<const Measurement> round) {
  constexpr double kShare = 0.5;   // of a surprise
  constexpr double kMost = 2;      // by which a slowness changes in a round
  constexpr double kForget = 0.1;  // of the way to the middle, of a worker that trains nobody
  if (slowness_.empty()) return;
  double scale = 1;
  if (!has_measured()) {  // predict() gives units
    const auto sum = [&](double Measurement::*field) {
      double total = 0;
      for (const Measurement& one : round) total += one.*field;
      return total;
    };
    scale = sum(&Measurement::seconds) / sum(&Measurement::units);
  }
  std::vector<double> surprise(slowness_.size());  // sum of logarithms
  std::vector<double> trained(slowness_.size());
  for (const Measurement& one : round) {
    const auto w = to_index(one.worker);
    const double predicted = scale * predict(one.client, one.units) * slowness_[w];
    if (predicted <= 0 || one.seconds <= 0) continue;
    surprise[w] += std::log(one.seconds / predicted);
    ++trained[w];
  }
  const double middle = median(slowness_);
  for (std::size_t w = 0; w < slowness_.size(); ++w) {
    const double change = trained[w] > 0 ? std::exp(kShare * surprise[w] / trained[w])
                                         : std::pow(middle / slowness_[w], kForget);
    slowness_[w] *= std::clamp(change, 1 / kMost, kMost);
  }
}

std::vector<int64_t> cut_evenly(std::span<const int64_t> sizes, int64_t parts) {
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<int64_t> borders{0};
  int64_t at = 0;
  int64_t sum = 0;
  for (int64_t part = 1; part <= parts; ++part) {
    const int64_t goal = total * part / parts;
    while (at < static_cast<int64_t>(sizes.size()) && (part == parts || sum < goal)) {
      sum += sizes[to_index(at++)];
    }
    borders.push_back(at);
  }
  return borders;
}

bool Deadline::starts(double elapsed_s, int64_t participants) {
  next_ = participants;
  came_ += participants;
  return counted_ == 0 || !is_up(elapsed_s);
}

bool Deadline::counts(double elapsed_s) {
  if (counted_ > 0 && is_up(elapsed_s)) return false;
  counted_ += next_;
  return true;
}

double Deadline::factor() const {
  return counted_ == 0 ? 1 : static_cast<double>(came_) / static_cast<double>(counted_);
}

}  // namespace hanse
