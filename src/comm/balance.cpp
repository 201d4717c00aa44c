#include "hanse/comm/balance.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "hanse/base/index.hpp"

namespace hanse {

std::vector<int64_t> longest_first(std::span<const double> costs) {
  std::vector<int64_t> order(costs.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return costs[to_index(a)] > costs[to_index(b)]; });
  return order;
}

namespace {

// The load of each worker.
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

  // The worker where an item of this cost ends first: the least loaded of a speed. Ties go to the
  // faster, then to the lowest.
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
  std::map<double, std::set<std::pair<double, int64_t>>> by_load_;  // by slowness
};

// The items of each worker, and which worker ends last.
class Spread {
 public:
  Spread(std::span<const double> costs, int64_t workers, std::span<const double> slowness,
         std::vector<int64_t>& worker_of)
      : costs_(costs),
        slowness_(slowness.begin(), slowness.end()),
        worker_of_(worker_of),
        items_(to_index(workers)),
        ends_(to_index(workers)) {
    slowness_.resize(items_.size(), 1.0);
    for (std::size_t i = 0; i < costs.size(); ++i) {
      items_[to_index(worker_of[i])].push_back(i);
      ends_[to_index(worker_of[i])] += costs[i] * slowness_[to_index(worker_of[i])];
    }
  }

  // Moves an item from the worker that ends last to another, or swaps it for one of the other's,
  // such that the later of both ends earliest. Returns false, and does nothing, if that wins too
  // little or too many pairs were looked at.
  bool improve() {
    constexpr double kLittle = 0.001;
    const std::size_t last = latest();
    if (ends_[last] <= (1 + kLittle) * together() || pairs_ > kMostPairs) return false;
    for (const std::size_t other : by_end()) {
      const Swap best = best_swap(last, other);
      if (best.end < (1 - kLittle / 10) * ends_[last]) {
        make(last, other, best);
        return true;
      }
      if (pairs_ > kMostPairs) return false;
    }
    return false;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  static constexpr int64_t kMostPairs = 20000;
  struct Swap {
    double end;
    std::size_t given = 0, taken = kNone;  // places in the lists of the two workers
  };

  std::size_t latest() const {
    return to_index(std::max_element(ends_.begin(), ends_.end()) - ends_.begin());
  }
  double together() const {
    double work = 0, speed = 0;
    for (std::size_t w = 0; w < ends_.size(); ++w) {
      work += ends_[w] / slowness_[w];
      speed += 1 / slowness_[w];
    }
    return work / speed;
  }
  std::vector<std::size_t> by_end() const {
    std::vector<std::size_t> workers(ends_.size());
    std::iota(workers.begin(), workers.end(), std::size_t{0});
    std::ranges::stable_sort(workers, {}, [&](std::size_t w) { return ends_[w]; });
    return workers;
  }

  Swap best_swap(std::size_t from, std::size_t to) {
    Swap best{.end = ends_[from]};
    if (from == to) return best;
    const auto consider = [&](std::size_t given, std::size_t taken) {
      const double less =
          costs_[items_[from][given]] - (taken == kNone ? 0 : costs_[items_[to][taken]]);
      const double end =
          std::max(ends_[from] - less * slowness_[from], ends_[to] + less * slowness_[to]);
      if (end < best.end) best = {end, given, taken};
    };
    for (std::size_t given = 0; given < items_[from].size(); ++given) {
      consider(given, kNone);
      for (std::size_t taken = 0; taken < items_[to].size(); ++taken) consider(given, taken);
    }
    pairs_ += std::ssize(items_[from]) * (std::ssize(items_[to]) + 1);
    return best;
  }

  void make(std::size_t from, std::size_t to, const Swap& swap) {
    const std::size_t given = items_[from][swap.given];
    send(given, from, to);
    items_[from].erase(items_[from].begin() + static_cast<std::ptrdiff_t>(swap.given));
    if (swap.taken != kNone) {
      send(items_[to][swap.taken], to, from);
      items_[from].push_back(items_[to][swap.taken]);
      items_[to].erase(items_[to].begin() + static_cast<std::ptrdiff_t>(swap.taken));
    }
    items_[to].push_back(given);
  }
  void send(std::size_t item, std::size_t from, std::size_t to) {
    ends_[from] -= costs_[item] * slowness_[from];
    ends_[to] += costs_[item] * slowness_[to];
    worker_of_[item] = static_cast<int64_t>(to);
  }

  std::span<const double> costs_;
  std::vector<double> slowness_;
  std::vector<int64_t>& worker_of_;
  std::vector<std::vector<std::size_t>> items_;  // [workers]
  std::vector<double> ends_;
  int64_t pairs_ = 0;  // looked at
};

}  // namespace

std::vector<int64_t> balance(std::span<const double> costs, int64_t workers,
                             std::span<const int64_t> homes, double move,
                             std::span<const double> slowness) {
  std::vector<int64_t> worker_of(costs.size());
  if (workers == 1) return worker_of;
  Loads loads(workers, slowness);
  for (const int64_t item : longest_first(costs)) {
    const auto i = to_index(item);
    const int64_t home = homes.empty() ? -1 : homes[i];
    const int64_t first = loads.first(costs[i]);
    const bool stays = home >= 0 && loads.end(home, costs[i]) <= loads.end(first, costs[i]) + move;
    worker_of[i] = stays ? home : first;
    loads.add(worker_of[i], costs[i], stays || home < 0 ? 0 : move);
  }
  if (std::ranges::any_of(homes, [](int64_t home) { return home >= 0; })) return worker_of;
  for (Spread spread(costs, workers, slowness, worker_of); spread.improve();) {
  }
  return worker_of;
}

std::vector<int64_t> by_start(std::span<const double> costs, std::span<const int64_t> worker_of) {
  auto order = longest_first(costs);
  if (order.empty()) return order;
  std::vector<double> starts(costs.size());
  std::vector<double> ends(to_index(*std::max_element(worker_of.begin(), worker_of.end()) + 1));
  for (const int64_t item : order) {
    const auto i = to_index(item);
    double& end = ends[to_index(worker_of[i])];
    starts[i] = end;
    end += costs[i];
  }
  const auto start_of = [&](int64_t item) { return starts[to_index(item)]; };
  if (!std::ranges::is_sorted(order, {}, start_of)) std::ranges::stable_sort(order, {}, start_of);
  return order;
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

}  // namespace hanse
