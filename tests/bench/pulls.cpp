// What one pull of a bandit costs: a client's choice and its statistics.
//   hanse-bench-pulls
// prints a JSON line a case: {"statistics": ..., "dimension": d, "arms": n,
// "seconds_per_pull_median": x}.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/random.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/rules/bandit/linear.hpp"

namespace {

using namespace hanse;

double median_seconds(int64_t dimension, int64_t arms, StatisticsForm form, int64_t pulls) {
  RandomStream random(1, Purpose::kArms);
  std::vector<double> numbers(static_cast<std::size_t>(arms * dimension));
  for (double& value : numbers) value = random.normal();
  const auto features = std::make_shared<const ArmFeatures>(
      numbers, std::vector<double>(static_cast<std::size_t>(arms)), form);
  const auto policy = make_linear_policy({.ucb = {.lambda = 0.05, .gamma = 1e9},
                                          .model = [=](int64_t) { return LinearModel{features}; },
                                          .scalars = {}});
  const auto client = policy->make_client(0);
  std::vector<double> seconds;
  for (int64_t t = 0; t < pulls; ++t) {
    const double start_s = monotonic_seconds();
    client->play(client->next(), random.normal());
    seconds.push_back(monotonic_seconds() - start_s);
  }
  const auto middle = seconds.begin() + pulls / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace

extern "C" int hanse_main(int, char**, const hanse::Start&) try {
  for (const auto& [name, form] : {std::pair{"per-arm", StatisticsForm::kPerArm},
                                   std::pair{"packed", StatisticsForm::kPacked}}) {
    for (const auto& [dimension, arms] :
         {std::pair<int64_t, int64_t>{201, 20}, {201, 50}, {201, 200}, {401, 50}, {801, 50}}) {
      fmt::print(
          "{{\"statistics\": \"{}\", \"dimension\": {}, \"arms\": {}, "
          "\"seconds_per_pull_median\": {:.9g}}}\n",
          name, dimension, arms, median_seconds(dimension, arms, form, 41));
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "hanse-bench-pulls: error: %s\n", error.what());
  return 2;
}
