#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/bandits.hpp"
#include "hanse/protocol/bandit_setup.hpp"

namespace hanse {

namespace {

struct BanditTrace {
  int64_t clients;
  Arms arms;                     // points or features, and values
  std::vector<double> noise;     // [horizon, clients] in playing order
  std::vector<double> uniforms;  // that the drawing of dictionaries consumes
  std::size_t used = 0;          // of them

  double next_uniform() {
    if (used == uniforms.size()) {
      throw InvalidArgument(fmt::format("only {} numbers, and a synchronization needs more", used),
                            "trace.uniforms",
                            "each takes one for every pull since the start, client by client");
    }
    return uniforms[used++];
  }
};

// The rows [arms, dimension] of the trace's field `name`.
Arms read_arms(const Json& trace, const std::string& name) {
  const Json& rows = field(trace, name, "trace");
  if (!rows.is_array() || rows.size() < 2 || !rows.front().is_array()) {
    throw InvalidArgument(fmt::format("expected at least two arms, an array of {} each",
                                      name == "points" ? "coordinates" : name),
                          name);
  }
  Arms arms{.inputs = std::ssize(rows.front())};
  for (std::size_t a = 0; a < rows.size(); ++a) {
    const auto row =
        numbers(rows[a], to_index(arms.inputs), -INFINITY, fmt::format("arm {}.{}", a, name));
    arms.points.insert(arms.points.end(), row.begin(), row.end());
  }
  arms.values = numbers(trace, "values", rows.size(), -INFINITY, "trace");
  return arms;
}

std::unique_ptr<BanditPolicy> policy_of(const Json& trace, const BanditTrace& read,
                                        const BanditRule& rule, AskedStatistics statistics) {
  const Arms& arms = read.arms;
  if (rule.model != RewardModel::kNetwork && rule.model != RewardModel::kPoints) {
    return make_policy({.arms = arms,
                        .ucb = rule.ucb,
                        .model = rule.model,
                        .kernel = rule.kernel,
                        .clients = read.clients},
                       {});
  }
  const auto features = std::make_shared<const ArmFeatures>(
      arms.points, numbers(trace, "base", arms.values.size(), -INFINITY, "trace"),
      statistics_form(statistics, arms.size(), arms.inputs));
  const int64_t scalars = 2 * read.clients * (arms.inputs * arms.inputs + arms.inputs);
  return make_linear_policy({.ucb = rule.ucb,
                             .model = [=](int64_t) { return LinearModel{features}; },
                             .scalars = [=](double) { return static_cast<double>(scalars); }});
}

// Synchronizes the clients' rows, and their dictionary where the policy has one.
double synchronize(BanditPolicy& policy, BanditTrace& trace, std::vector<double>& total,
                   const std::vector<std::unique_ptr<BanditClient>>& clients,
                   const std::vector<std::vector<int64_t>>& history) {
  for (std::size_t c = 0; c < clients.size(); ++c) {
    std::vector<double> news(total.size());
    policy.add(clients[c]->own(), static_cast<int64_t>(c), news);
    for (std::size_t i = 0; i < news.size(); ++i) total[i] += news[i];
  }
  const auto members = policy.members();
  std::vector<int64_t> drawn(members.size());
  for (std::size_t c = 0; c < clients.size() && !drawn.empty(); ++c) {
    policy.draw(
        history[c], [&] { return trace.next_uniform(); }, drawn);
  }
  std::copy(drawn.begin(), drawn.end(), members.begin());
  return policy.know(total);
}

// Plays one client after another.
Json play(BanditPolicy& policy, BanditTrace& trace) {
  const auto& values = trace.arms.values;
  std::vector<std::unique_ptr<BanditClient>> clients(to_index(trace.clients));
  std::vector<std::vector<int64_t>> history(clients.size());
  const auto start = [&] {
    for (std::size_t c = 0; c < clients.size(); ++c) {
      clients[c] = policy.make_client(static_cast<int64_t>(c));
    }
  };
  start();
  std::vector<double> total(to_index(policy.row_width()));
  const double best = *std::max_element(values.begin(), values.end());
  std::vector<int64_t> picks, syncs, dictionary;
  std::vector<double> regret;
  double sum = 0, scalars = 0;
  for (std::size_t step = 0; step < trace.noise.size(); ++step) {
    const std::size_t c = step % clients.size();
    const Turn turn = clients[c]->next();
    const double value = values[to_index(turn.arm)];
    clients[c]->play(turn, value + trace.noise[step]);
    history[c].push_back(turn.arm);
    picks.push_back(turn.arm);
    regret.push_back(sum += best - value);
    if (!turn.triggers) continue;
    syncs.push_back(static_cast<int64_t>(step) + 1);
    scalars += synchronize(policy, trace, total, clients, history);
    dictionary.push_back(policy.dictionary());
    start();
  }
  Json result{{"picks", picks},
              {"syncs", syncs},
              {"regret", regret},
              {"scalars_sent", std::llround(scalars)}};
  if (policy.dictionary() >= 0) result["dictionary"] = dictionary;
  return result;
}

}  // namespace

Json replay_bandit(const Json& trace, const Job& job, bool) {
  if (job.bandit.ucb != UpperBound::kLinear) {
    throw InvalidArgument("a trace has no network, only features", "rule.bandit.ucb", "linear");
  }
  const int64_t clients = clients_of(trace);
  const int64_t horizon = integer(field(trace, "horizon", "trace"), 1, int64_t{1} << 32, "horizon");
  const RewardModel model = make_bandit_rule(job.bandit, clients, horizon, 1).model;
  const bool kernel = model == RewardModel::kKernel || model == RewardModel::kKernelOfPoints;
  BanditTrace read{.clients = clients, .arms = read_arms(trace, kernel ? "points" : "features")};
  read.noise = numbers(trace, "noise", to_index(clients * horizon), -INFINITY, "trace");
  if (model == RewardModel::kKernelOfPoints) {
    const Json& uniforms = field(trace, "uniforms", "trace");
    read.uniforms = numbers(uniforms, uniforms.size(), 0, "trace.uniforms");
  }
  const BanditRule rule = make_bandit_rule(job.bandit, clients, horizon, read.arms.inputs);
  check_options(rule.ucb);
  check_options(rule.kernel);
  check_values(rule, read.arms, "trace.values");
  const auto policy = policy_of(trace, read, rule, job.bandit.statistics);
  return play(*policy, read);
}

}  // namespace hanse
