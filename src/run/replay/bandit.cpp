#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/bandits.hpp"
#include "hanse/rules/bandit/client.hpp"
#include "json.hpp"

namespace hanse {

namespace {

// The features [arms, dimension] of a trace.
std::vector<double> read_features(const Json& trace, std::size_t& dimension) {
  const Json& rows = field(trace, "features", "trace");
  if (!rows.is_array() || rows.size() < 2 || !rows.front().is_array()) {
    throw InvalidArgument("expected at least two arms, an array of features each", "features");
  }
  dimension = rows.front().size();
  std::vector<double> features;
  for (std::size_t a = 0; a < rows.size(); ++a) {
    const auto row = numbers(rows[a], dimension, -INFINITY, fmt::format("arm {}.features", a));
    features.insert(features.end(), row.begin(), row.end());
  }
  return features;
}

}  // namespace

Json replay_bandit(const Json& trace, const Job& job, const Playing&) {
  if (job.bandit.ucb != "linear") {
    throw InvalidArgument("a trace has no network, only features", "rule.bandit.ucb", "linear");
  }
  const int64_t count = clients_of(trace);
  const int64_t horizon = integer(field(trace, "horizon", "trace"), 1, int64_t{1} << 32, "horizon");
  std::size_t dimension = 0;
  auto rows = read_features(trace, dimension);
  const std::size_t arms = trace.at("features").size();
  auto base = numbers(trace, "base", arms, -INFINITY, "trace");
  const auto values = numbers(trace, "values", arms, -INFINITY, "trace");
  const auto noise = numbers(trace, "noise", to_index(count * horizon), -INFINITY, "trace");

  const auto d = static_cast<int64_t>(dimension);
  const UcbOptions ucb = make_bandit_rule(job.bandit, count, horizon, d).ucb;
  check_options(ucb);
  const ArmFeatures features(std::move(rows), std::move(base),
                             statistics_form(job.bandit.statistics, static_cast<int64_t>(arms), d));
  const Optimism optimism = linear_optimism;
  PullStatistics total(features);
  auto common = std::make_shared<ConfidenceSet>(features, ucb.lambda);
  std::vector<BanditClient> clients;
  for (int64_t c = 0; c < count; ++c) clients.emplace_back(features, ucb, optimism, common);

  const double best = *std::max_element(values.begin(), values.end());
  std::vector<int64_t> picks, syncs;
  std::vector<double> regret;
  double sum = 0;
  for (std::size_t step = 0; step < noise.size(); ++step) {
    BanditClient& client = clients[step % clients.size()];  // one after another
    const Turn turn = client.next();
    const double value = values[to_index(turn.arm)];
    client.play(turn, value + noise[step]);
    picks.push_back(turn.arm);
    regret.push_back(sum += best - value);
    if (!turn.triggers) continue;
    syncs.push_back(static_cast<int64_t>(step) + 1);
    for (const auto& other : clients) total.add(other.news().row());
    common = std::make_shared<ConfidenceSet>(features, ucb.lambda);
    common->rebuild(total.row());
    for (auto& other : clients) other.adopt(common);
  }
  return {{"picks", picks},
          {"syncs", syncs},
          {"regret", regret},
          {"scalars_sent", 2 * count * (d * d + d) * std::ssize(syncs)}};
}

}  // namespace hanse
