#include "hanse/run/bandit.hpp"

#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/rules/bandit/clusters.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/job.hpp"

namespace hanse {

namespace {

std::vector<std::string> arm_sources() {
  std::vector<std::string> names;
  for (const auto& function : test_functions()) names.push_back(function.name);
  names.insert(names.end(), {"file", "clusters"});
  return names;
}

void bind_arms(OptionTable& table, BanditOptions& bandit) {
  table.add_choice("bandit.arms", bandit.arms, arm_sources(),
                   "a test function at random points; file: bandit.path; clusters: of the samples "
                   "of a csv (data.path, data.label-column), rewarded by class");
  table.add("bandit.count", bandit.count, at_least(2), "arms drawn, or clusters made");
  table.add("bandit.inputs", bandit.inputs, at_least(1), "arguments of ackley and rastrigin");
  table.add("bandit.negate", bandit.negate,
            "the reward is minus the test function, as in the paper; cosine-8 is then minimised, "
            "the others too");
  table.add("bandit.path", bandit.path,
            "arms = file: a csv of a line an arm, features and then its value");
  table.add("bandit.positive", bandit.positive, at_least(0),
            "arms = clusters: the class whose share is an arm's value, in sorted order from 0");
  table.add("bandit.noise", bandit.noise, at_least(0), "deviation of a reward");
}

void bind_sets(OptionTable& table, BanditOptions& bandit) {
  table.add("bandit.lambda", bandit.lambda,
            "ridge, above 0: small for wide confidence sets; auto: lambda-scale sqrt(clients "
            "horizon), 0.1 for dis-lin-ucb");
  table.add("bandit.lambda-scale", bandit.lambda_scale, above(0), "C_lambda of bandit.lambda=auto");
  table
      .add("bandit.gamma", bandit.gamma,
           "trigger, at least 0: small for frequent synchronization; auto: 1, horizon / (features "
           "log(clients horizon)) for dis-lin-ucb")
      .only_for({"fed-go-ucb", "dis-lin-ucb"});
  table.add("bandit.sqrt-beta", bandit.sqrt_beta,
            "radius of the confidence sets; auto: sigma sqrt(log det ratio + 2 log(1/delta)) + "
            "sqrt(lambda) radius");
  table.add("bandit.sigma", bandit.sigma, at_least(0), "sub-Gaussian constant in sqrt-beta");
  table.add("bandit.delta", bandit.delta, Range{0, 1, true, true},
            "chance that a confidence set misses the truth");
  table.add("bandit.radius", bandit.radius, at_least(0), "bound of |w* - w0| in sqrt-beta");
  table
      .add_choice("bandit.ucb", bandit.ucb, {"linear", "network-mean", "ellipsoid"},
                  "upper bound of an arm: of the linearised network; the network at the centre "
                  "and the width; the network's largest value found in the set")
      .only_for({"fed-go-ucb", "one-go-ucb", "n-go-ucb"});
  table.add_choice("bandit.statistics", bandit.statistics, {"auto", "packed", "per-arm"},
                   "what a synchronization sends: a matrix of the features, or two numbers an arm; "
                   "the arms pulled are the same; auto: the smaller");
}

void bind_oracle(OptionTable& table, BanditOptions& bandit) {
  const std::vector<std::string> kinds{"fed-go-ucb", "one-go-ucb", "n-go-ucb"};
  OracleOptions& oracle = bandit.oracle;
  table
      .add("bandit.explore", bandit.explore, at_least(0),
           "T0, uniform pulls before round 1; 0: ceil(sqrt(clients horizon))")
      .only_for(kinds);
  table.add("bandit.hidden", oracle.hidden, at_least(1), "hidden units of the network")
      .only_for(kinds);
  table
      .add("bandit.spread", oracle.spread, above(0),
           "deviation of the network's start; large for rough functions, 0.5 for smooth ones")
      .only_for(kinds);
  table.add("bandit.steps", oracle.steps, at_least(0), "steps of the fit").only_for(kinds);
  table.add("bandit.step", oracle.step, above(0), "tau_1, step size of the fit").only_for(kinds);
  table
      .add("bandit.temperature", oracle.temperature, above(0),
           "tau_2, inverse: large for little noise in the fit")
      .only_for(kinds);
}

Arms read_arms(const Job& job) {
  DataOptions data = job.data;
  const bool clusters = job.bandit.arms == "clusters";
  if (!clusters) {
    data.task = "regression";
    data.label_column.clear();
    data.client_column.clear();
  }
  const Dataset read = read_csv(clusters ? job.data.path : job.bandit.path, data);
  const auto* features = reinterpret_cast<const float*>(read.features.data());
  Arms arms{.inputs = read.sample_values()};
  arms.points.assign(features, features + read.size() * read.sample_values());
  if (!clusters) {
    arms.values.assign(read.targets.begin(), read.targets.end());
    return arms;
  }
  if (job.bandit.positive >= read.classes) {
    throw InvalidArgument(fmt::format("class {} of {}", job.bandit.positive, read.classes),
                          "bandit.positive", "classes count from 0, in sorted order");
  }
  std::vector<bool> positive;
  for (const int32_t label : read.labels) positive.push_back(label == job.bandit.positive);
  return cluster_arms(arms.points, arms.inputs, positive, job.bandit.count);
}

bool reads_files(const BanditOptions& bandit) {
  return bandit.arms == "file" || bandit.arms == "clusters";
}

// Rank 0's arms on all ranks.
Arms share_arms(const Job& job, Communicator& comm) {
  Arms arms;
  agree_on(comm, [&] {
    if (comm.rank() == 0) arms = read_arms(job);
    if (comm.rank() == 0 && arms.size() < 2) {
      throw InvalidArgument(fmt::format("{} arms, at least 2 are needed", arms.size()),
                            job.bandit.path);
    }
  });
  int64_t shape[] = {arms.size(), arms.inputs};
  comm.bcast(std::span(shape), 0);
  arms.inputs = shape[1];
  arms.values.resize(static_cast<std::size_t>(shape[0]));
  arms.points.resize(static_cast<std::size_t>(shape[0] * shape[1]));
  comm.bcast(std::span(arms.values), 0);
  comm.bcast(std::span(arms.points), 0);
  return arms;
}

BanditSetup setup_of(const Job& job, Arms arms, uint64_t seed) {
  const BanditOptions& bandit = job.bandit;
  const int64_t clients = job.federation.clients;
  const BanditRule rule = make_bandit_rule(bandit, clients, bandit.horizon, arms.inputs);
  return {.arms = std::move(arms),
          .ucb = rule.ucb,
          .optimism = bandit.ucb,
          .statistics = bandit.statistics,
          .network = rule.network,
          .clients = clients,
          .exploration = rule.network ? exploration_of(bandit, clients) : 0,
          .oracle = bandit.oracle,
          .noise = bandit.noise,
          .seed = seed};
}

}  // namespace

void bind_bandit(OptionTable& table, BanditOptions& bandit) {
  table.add_choice("bandit.kind", bandit.kind, known_names("bandit.kind"),
                   "how arms are chosen, and when clients synchronize");
  bind_arms(table, bandit);
  table.add("bandit.horizon", bandit.horizon, at_least(0),
            "rounds that the automatic options are set for; 0: run.rounds of the first start");
  bind_sets(table, bandit);
  bind_oracle(table, bandit);
}

int64_t exploration_of(const BanditOptions& options, int64_t clients) {
  const int64_t turns = clients * options.horizon;
  if (options.explore > turns) {
    throw InvalidArgument(
        fmt::format("{} uniform pulls, but clients make {} pulls in all", options.explore, turns),
        "bandit.explore", "0: the root of the latter");
  }
  if (options.explore > 0) return options.explore;
  return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(turns))));
}

void check_bandit(const Job& job) {
  const BanditOptions& bandit = job.bandit;
  const auto rule = make_bandit_rule(bandit, job.federation.clients, bandit.horizon, 1);
  check_options(rule.ucb);
  if (rule.network) exploration_of(bandit, job.federation.clients);
  const std::string& path = bandit.arms == "file" ? bandit.path : job.data.path;
  if (reads_files(bandit) && !std::filesystem::is_regular_file(path)) {
    throw InvalidArgument(fmt::format("no such file: '{}'", path),
                          bandit.arms == "file" ? "bandit.path" : "data.path",
                          "data/README.md has the format");
  }
}

std::unique_ptr<BanditProtocol> make_bandit(const Job& job, Communicator& comm) {
  const bool files = reads_files(job.bandit);
  const Arms read = files ? share_arms(job, comm) : Arms{};
  std::unique_ptr<BanditProtocol> bandit;
  agree_on(comm, [&] {
    std::vector<BanditSetup> repeats;
    for (int64_t r = 0; r < job.run.repeats; ++r) {
      const auto seed = static_cast<uint64_t>(job.run.seed + r);
      const BanditOptions& options = job.bandit;
      Arms arms =
          files ? read
                : draw_arms(options.arms, options.count, options.inputs, options.negate, seed);
      repeats.push_back(setup_of(job, std::move(arms), seed));
    }
    bandit = std::make_unique<BanditProtocol>(std::move(repeats), comm);
  });
  return bandit;
}

std::string bandit_text(const Job& job, const BanditProtocol& bandit) {
  return fmt::format("{}: {} on {} arms of {}, {} parameters, {} clients{}", job.run.name,
                     job.bandit.kind, bandit.arms(), job.bandit.arms, bandit.dimension(),
                     bandit.clients(),
                     job.run.repeats > 1 ? fmt::format(", {} repeats", job.run.repeats) : "");
}

}  // namespace hanse
