#include "hanse/protocol/bandit.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "assemble.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/bandits.hpp"
#include "hanse/rules/bandit/problem.hpp"

namespace hanse {

namespace {

// Test functions are scaled linearly, so that their arms span [0, 1].
RewardScale scale_of(const Arms& arms) {
  const auto [low, high] = std::minmax_element(arms.values.begin(), arms.values.end());
  return {.low = *low, .span = *high > *low ? *high - *low : 1};
}

Arms read_arms(const Job& job) {
  DataOptions data = job.data;
  const bool clusters = job.bandit.arms == ArmSource::kClusters;
  if (!clusters) {
    data.task = "regression";
    data.label_column.clear();
    data.client_column.clear();
  }
  const Dataset read = read_csv(clusters ? job.data.path : job.bandit.path, data);
  if (!read.open.empty()) {
    throw InvalidArgument("arms have neither missing values nor categories",
                          "data.missing, data.categories", "use refuse");
  }
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

// Brings rank 0's arms to all ranks.
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

// A resume goes on with the same arms, wherever their file lies.
std::string arms_digest(const Arms& arms) {
  std::vector<double> numbers = arms.points;
  numbers.insert(numbers.end(), arms.values.begin(), arms.values.end());
  return digest_hex(std::as_bytes(std::span(numbers)));
}

bool is_scaled(const Job& job, RewardModel model) {
  return model == RewardModel::kLogistic && !reads_arms(job.bandit);
}

BanditSetup setup_of(const Job& job, Arms arms, uint64_t seed) {
  const BanditOptions& bandit = job.bandit;
  const int64_t clients = job.federation.clients;
  const BanditRule rule = make_bandit_rule(bandit, clients, bandit.horizon, arms.inputs);
  const bool network = rule.model == RewardModel::kNetwork;
  if (reads_arms(bandit)) check_values(rule, arms, bandit.path);
  const RewardScale scale = is_scaled(job, rule.model) ? scale_of(arms) : RewardScale{};
  return {.arms = std::move(arms),
          .ucb = rule.ucb,
          .optimism = bandit.ucb,
          .statistics = bandit.statistics,
          .model = rule.model,
          .own_models = rule.own_models,
          .running = rule.running,
          .kernel = rule.kernel,
          .scale = scale,
          .clients = clients,
          .exploration = network ? exploration_of(bandit, clients) : 0,
          .oracle = bandit.oracle,
          .noise = bandit.noise,
          .seed = seed};
}

// Throws InvalidArgument where the arms' points, or each client's numbers of a network's
// parameters, have no room.
void check_memory(const Job& job) {
  const BanditOptions& bandit = job.bandit;
  const bool counts = bandit.arms == ArmSource::kAckley || bandit.arms == ArmSource::kRastrigin;
  const auto arms = static_cast<double>(bandit.count);
  const auto inputs = static_cast<double>(counts ? bandit.inputs : 1);
  const auto clients = static_cast<double>(job.federation.clients);
  const double each = sizeof(double) * static_cast<double>(job.run.repeats);
  require_planned_memory(
      each * arms * inputs, fmt::format("{} arms of {} numbers take", arms, inputs),
      bandit.count > bandit.inputs ? "bandit.count" : "bandit.inputs", "use fewer");
  if (make_bandit_rule(bandit, 1, 1, 1).model != RewardModel::kNetwork) return;
  const double parameters = static_cast<double>(bandit.oracle.hidden) * (inputs + 2) + 1;
  require_planned_memory(
      each * (arms + clients) * parameters,
      fmt::format("the {:.6g} parameters of a network, of each arm and client, take", parameters),
      "bandit.hidden", "use fewer hidden units");
}

}  // namespace

// Makes run.repeats bandits, with seeds run.seed, run.seed + 1, ... Rank 0 reads the files.
std::unique_ptr<Assembly> assemble_bandit(const Job& job, Communicator& comm,
                                          const RankGpu* /*given*/) {
  auto assembly = std::make_unique<BanditAssembly>(comm);
  const BanditOptions& options = job.bandit;
  const bool files = reads_arms(options);
  const Arms read = files ? share_arms(job, comm) : Arms{};
  if (files) {
    assembly->files[options.arms == ArmSource::kFile ? "bandit.path" : "data.path"] =
        arms_digest(read);
  }
  agree_on(comm, [&] {
    check_memory(job);
    std::vector<BanditSetup> repeats;
    for (int64_t r = 0; r < job.run.repeats; ++r) {
      const auto seed = static_cast<uint64_t>(job.run.seed + r);
      Arms arms =
          files ? read
                : draw_arms(options.arms, options.count, options.inputs, options.negate, seed);
      repeats.push_back(setup_of(job, std::move(arms), seed));
    }
    assembly->bandit = std::make_unique<BanditProtocol>(std::move(repeats), comm);
  });
  const BanditProtocol& bandit = *assembly->bandit;
  assembly->greeting.push_back(fmt::format(
      "{}: {} on {} arms of {}, {} parameters, {} clients{}", job.run.name, options.kind,
      bandit.arms(), name_of(options.arms), bandit.dimension(), bandit.clients(),
      job.run.repeats > 1 ? fmt::format(", {} repeats", job.run.repeats) : ""));
  if (is_scaled(job, bandit.reward_model())) {
    assembly->greeting.push_back(fmt::format(
        "clients learn rewards of {} scaled linearly, so that the arms' values span [0, "
        "1]; regret is in the function's units",
        name_of(options.arms)));
  }
  return assembly;
}

}  // namespace hanse
