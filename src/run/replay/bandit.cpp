#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/bandits.hpp"
#include "hanse/rules/bandit/client.hpp"
#include "json.hpp"

namespace hanse {

namespace {

// A bandit as the trace has it.
struct Trace {
  int64_t clients;
  int64_t horizon;
  int64_t dimension;
  std::vector<double> features;  // [arms, dimension]
  std::vector<double> base;      // [arms]
  std::vector<double> values;    // [arms]
  std::vector<double> noise;     // [clients x horizon], in playing order
};

Trace read_trace(const Json& json) {
  Trace trace{.clients = clients_of(json)};
  trace.horizon = integer(field(json, "horizon", "trace"), 1, int64_t{1} << 32, "horizon");
  const Json& rows = field(json, "features", "trace");
  if (!rows.is_array() || rows.size() < 2 || !rows.front().is_array()) {
    throw InvalidArgument("expected at least two arms, an array of features each", "features");
  }
  const std::size_t arms = rows.size();
  trace.dimension = static_cast<int64_t>(rows.front().size());
  for (std::size_t a = 0; a < arms; ++a) {
    const Json named = {{"features", rows[a]}};
    const auto row =
        numbers(named, "features", rows.front().size(), -INFINITY, fmt::format("arm {}", a));
    trace.features.insert(trace.features.end(), row.begin(), row.end());
  }
  trace.base = numbers(json, "base", arms, -INFINITY, "trace");
  trace.values = numbers(json, "values", arms, -INFINITY, "trace");
  trace.noise = numbers(json, "noise", static_cast<std::size_t>(trace.clients * trace.horizon),
                        -INFINITY, "trace");
  return trace;
}

// The clients of a trace, one after another.
class Players {
 public:
  Players(const Trace& trace, const UcbOptions& ucb, StatisticsForm form)
      : ucb_(ucb),
        features_(trace.features, trace.base, form),
        optimism_(make_linear_optimism()),
        total_(features_) {
    const auto nothing = std::make_shared<const ConfidenceSet>(features_, ucb.lambda);
    for (int64_t c = 0; c < trace.clients; ++c) {
      clients_.emplace_back(features_, ucb, *optimism_, nothing);
    }
  }

  BanditClient& of_step(std::size_t step) { return clients_[step % clients_.size()]; }

  void synchronize() {
    for (const auto& client : clients_) total_.add(client.news().row());
    auto common = std::make_shared<ConfidenceSet>(features_, ucb_.lambda);
    common->rebuild(total_.row());
    for (auto& client : clients_) client.adopt(common);
  }

 private:
  UcbOptions ucb_;
  ArmFeatures features_;
  std::unique_ptr<Optimism> optimism_;
  PullStatistics total_;
  std::vector<BanditClient> clients_;
};

}  // namespace

Json replay_bandit(const Json& json, const Job& job) {
  if (job.bandit.ucb != "linear") {
    throw InvalidArgument("a trace has no network, only features", "rule.bandit.ucb", "linear");
  }
  const Trace trace = read_trace(json);
  const BanditRule rule =
      make_bandit_rule(job.bandit, trace.clients, trace.horizon, trace.dimension);
  check_options(rule.ucb);
  const auto arms = static_cast<int64_t>(trace.base.size());
  Players players(trace, rule.ucb, statistics_form(job.bandit.statistics, arms, trace.dimension));
  const double best = *std::max_element(trace.values.begin(), trace.values.end());
  std::vector<int64_t> picks, syncs;
  std::vector<double> regret;
  double sum = 0;
  for (std::size_t step = 0; step < trace.noise.size(); ++step) {
    BanditClient& client = players.of_step(step);
    const Turn turn = client.next();
    const double value = trace.values[static_cast<std::size_t>(turn.arm)];
    client.play(turn, value + trace.noise[step]);
    picks.push_back(turn.arm);
    regret.push_back(sum += best - value);
    if (!turn.triggers) continue;
    syncs.push_back(static_cast<int64_t>(step) + 1);
    players.synchronize();
  }
  const int64_t scalars = 2 * trace.clients * (trace.dimension * trace.dimension + trace.dimension);
  return {{"picks", picks},
          {"syncs", syncs},
          {"regret", regret},
          {"scalars_sent", scalars * static_cast<int64_t>(syncs.size())}};
}

}  // namespace hanse
