#include "hanse/rules/clock/tasks.hpp"

#include <algorithm>
#include <numeric>

#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

std::vector<Ticks> TaskTimes::of_all(int64_t clients) const {
  std::vector<Ticks> all;
  for (int64_t client = 0; client < clients; ++client) all.push_back(whole(client, 0).total());
  return all;
}

GivenTimes::GivenTimes(std::span<const double> durations_s) {
  for (const double seconds : durations_s) {
    durations_.push_back(ticks_of(seconds, std::ssize(durations_)));
  }
}

Phases GivenTimes::phases(int64_t client, int64_t, int64_t) const {
  return {.down = 0, .compute = durations_[to_index(client)], .up = 0};
}

std::vector<double> balanced_by_frequency(std::span<const double> lambda,
                                          std::span<const Ticks> durations) {
  double rates = 0;
  for (const Ticks ticks : durations) rates += 1 / static_cast<double>(ticks);
  const double mean = static_cast<double>(durations.size()) / rates;
  std::vector<double> balanced(lambda.begin(), lambda.end());
  for (std::size_t i = 0; i < balanced.size(); ++i) {
    balanced[i] *= static_cast<double>(durations[i]) / mean;
  }
  return balanced;
}

bool LostWork::is_lost(int64_t client, int64_t number) const {
  const double p = probabilities_[static_cast<std::size_t>(client) % probabilities_.size()];
  if (p <= 0) return false;
  RandomStream stream(seed_, Purpose::kLost, static_cast<uint64_t>(number),
                      static_cast<uint64_t>(client));
  return stream.uniform() < p;
}

bool LostWork::never() const {
  return std::all_of(probabilities_.begin(), probabilities_.end(), [](double p) { return p <= 0; });
}

Fate Tasks::fate(int64_t client, int64_t number, Ticks start, int64_t steps) const {
  Fate fate{.arrives = true, .phases = times_.phases(client, number, steps)};
  const Ticks work = fate.phases.total();
  fate.known = later(start, work, client);
  if (leave_ != LeaveRule::kFinish && !on_line_.always()) {
    const Ticks off = on_line_.next_off(client, start);
    if (off <= fate.known && leave_ == LeaveRule::kLose) {
      return {.known = off, .phases = fate.phases};
    }
    if (off <= fate.known) fate.known = on_line_.end_of_work(client, start, work);
  }
  fate.arrives = !lost_.is_lost(client, number);
  return fate;
}

int64_t Tasks::steps_within(int64_t client, int64_t number, Ticks limit) const {
  const auto fits = [&](int64_t steps) {
    return times_.phases(client, number, steps).total() <= limit;
  };
  int64_t low = 0, high = times_.steps(client);
  if (fits(high)) return high;
  while (low + 1 < high) {  // `low` steps fit, `high` do not
    const int64_t middle = std::midpoint(low, high);
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace hanse
