// What one decision of a rule of the user's own costs, without training.
//   hanse-bench-own-rules RULE.py
// prints a JSON line a case: {"rule": "python" or "formula", "participants": K,
// "seconds_per_decision_median": x}. The file has an aggregator that needs losses.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/error.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/plugin/rules.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace {

using namespace hanse;

double median_seconds(Aggregator& rule, std::size_t k) {
  constexpr int64_t kWarmUp = 200, kRounds = 2001;
  std::vector<int64_t> ids(k);
  std::vector<double> losses(k);
  for (std::size_t i = 0; i < k; ++i) {
    ids[i] = static_cast<int64_t>(i);
    losses[i] = 1 / static_cast<double>(i + 1);
  }
  const std::vector<double> shares(k, 1 / static_cast<double>(k)), ones(k, 1.0);
  std::vector<double> seconds;
  for (int64_t t = 1; t <= kWarmUp + kRounds; ++t) {
    const double start_s = monotonic_seconds();
    rule.mix({.round = t,
              .clients = ids,
              .lambda = shares,
              .draw_weights = ones,
              .losses = losses,
              .samples = ones});
    if (t > kWarmUp) seconds.push_back(monotonic_seconds() - start_s);
  }
  const auto middle = seconds.begin() + kRounds / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) try {
  if (argc != 2) throw InvalidArgument("expected one file of a rule");
  for (const int64_t k : {10, 1000}) {
    const auto python = make_own_aggregator(
        {.section = "aggregator", .file = {.path = argv[1]}, .python = true}, k);
    const auto formula = make_by_formula("lambda * exp(F - max(F))", k);
    for (const auto& [name, rule] :
         {std::pair{"python", python.get()}, {"formula", formula.get()}}) {
      fmt::print(
          "{{\"rule\": \"{}\", \"participants\": {}, "
          "\"seconds_per_decision_median\": {:.9g}}}\n",
          name, k, median_seconds(*rule, static_cast<std::size_t>(k)));
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "hanse-bench-own-rules: error: %s\n", error.what());
  return 2;
}
