#include "hanse/protocol/bandit.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attempt.hpp"
#include "bandit/bandit_run.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

namespace {

std::string part_name(std::size_t repeat) { return fmt::format("repeat{}", repeat); }

bool of_kernel(const BanditSetup& setup) {
  return setup.model == RewardModel::kKernel || setup.model == RewardModel::kKernelOfPoints;
}

}  // namespace

BanditProtocol::BanditProtocol(std::vector<BanditSetup> repeats, Communicator& comm) : comm_(comm) {
  for (auto& setup : repeats) runs_.push_back(std::make_unique<BanditRun>(std::move(setup), comm));
}

BanditProtocol::~BanditProtocol() = default;

int64_t BanditProtocol::arms() const { return runs_.front()->setup().arms.size(); }
int64_t BanditProtocol::clients() const { return runs_.front()->setup().clients; }
int64_t BanditProtocol::dimension() const { return runs_.front()->dimension(); }
int64_t BanditProtocol::row_width() const { return runs_.front()->row_width(); }

RewardModel BanditProtocol::reward_model() const { return runs_.front()->setup().model; }
bool BanditProtocol::sends_matrices() const {
  return reward_model() == RewardModel::kNetwork || reward_model() == RewardModel::kPoints;
}

// What round() sends, in the order in which it does, and what a rank keeps.
RoundFootprint BanditProtocol::footprint(int64_t ranks, double synchronizations) const {
  RoundFootprint footprint(ranks);
  const double others = footprint.others();
  const auto repeats = static_cast<double>(runs_.size());
  // Clients that do not lie on rank 0, and the most on any rank.
  const auto elsewhere = static_cast<double>(clients() - first_client(1, ranks, clients()));
  const auto most = static_cast<double>((clients() + ranks - 1) / ranks);
  const double row = sizeof(double) * static_cast<double>(row_width());

  // play_round(): the turns up to each synchronization and those behind the last; synchronize().
  const double phases = repeats + synchronizations;
  footprint.add("turns", 2 * phases * sizeof(int64_t) * others, 2 * phases * others, 2 * phases);
  if (runs_.front()->setup().model == RewardModel::kKernelOfPoints && synchronizations > 0) {
    footprint.add("dictionary",
                  2 * synchronizations * static_cast<double>(arms()) * sizeof(int64_t) * others,
                  2 * synchronizations * others, 2 * synchronizations);
  }
  if (synchronizations > 0) {
    footprint.add("statistics", synchronizations * row * (elsewhere + others),
                  2 * synchronizations * others, 2 * synchronizations);
  }
  // count_round().
  footprint.add("arms", repeats * sizeof(int64_t) * (elsewhere + others), 2 * repeats * others,
                2 * repeats);
  footprint.reduce("findings", sizeof(double) * kFindings);
  footprint.keep("statistics", repeats * row * (1 + most));
  return footprint;
}

void BanditProtocol::initialize_model() {
  std::exception_ptr failure;
  attempt(failure, [&] {
    for (auto& run : runs_) run->explore();
  });
  agree(comm_, failure);
}

RoundRecord BanditProtocol::round(bool stop_requested) {
  const double start_s = monotonic_seconds();
  const double comm_before_s = comm_.seconds();
  const int64_t bytes_before = comm_.bytes_moved();
  for (auto& run : runs_) {
    const Scope phase(Phase::kTraining);
    run->play_round();
    if (!failure_) failure_ = run->failure();
  }
  const double comm_s = comm_.seconds() - comm_before_s;
  const double worked_s = monotonic_seconds() - start_s - comm_s;
  double findings[kFindings] = {comm_s, worked_s, stop_requested ? 1.0 : 0.0, failure_ ? 1.0 : 0.0};
  comm_.reduce(std::span(findings), ReduceOp::kMax, 0);
  RoundRecord record{.round = ++completed_,
                     .participants = clients(),
                     .train_s = findings[kWorkSeconds],
                     .comm_s = findings[kCommSeconds],
                     .bytes_sent = comm_.bytes_moved() - bytes_before,
                     .mixed_loss = std::nan(""),
                     .stop_requested = findings[kStop] > 0,
                     .failed = findings[kFailed] > 0};
  for (std::size_t r = 0; r < runs_.size() && comm_.rank() == 0; ++r) {
    const BanditRun& run = *runs_[r];
    const BanditNumbers& n = run.numbers();
    record.loss +=
        n.round_regret / static_cast<double>(clients()) / static_cast<double>(runs_.size());
    lines_ += fmt::format("{},{},{:.9g},{:.9g},{},{},{},{},{}\n", completed_, r, n.regret,
                          n.explore_regret, n.syncs, n.replayed, n.scalars, run.explore_scalars(),
                          n.bytes);
  }
  record.seconds = monotonic_seconds() - start_s;
  return record;
}

EvaluationTable BanditProtocol::evaluate() {
  if (comm_.rank() != 0) return {};
  const auto pulls = static_cast<double>(std::max<int64_t>(1, completed_));
  const auto repeats = static_cast<double>(runs_.size());
  EvaluationTable clients;
  for (int64_t c = 0; c < this->clients(); ++c) {
    ClientEvaluation client{.samples = pulls, .train_samples = pulls, .client = c};
    for (const auto& run : runs_) {
      client.loss += run->numbers().regret_of[to_index(c)] / pulls / repeats;
      client.accuracy += static_cast<double>(run->numbers().best_of[to_index(c)]) / pulls / repeats;
    }
    client.train_loss = client.loss;
    clients.push_back(client);
  }
  return clients;
}

Metrics BanditProtocol::metrics() const {
  Metrics metrics;
  const auto add = [&](const std::string& name, const auto& number_of) {
    std::vector<double> values;
    for (const auto& run : runs_) values.push_back(static_cast<double>(number_of(*run)));
    add_over_repeats(metrics, name, values);
  };
  add("regret", [](const BanditRun& run) { return run.numbers().regret; });
  add("regret_explore", [](const BanditRun& run) { return run.numbers().explore_regret; });
  if (networks_of(runs_.front()->setup()) > 0) {
    add("fit_loss", [](const BanditRun& run) { return run.numbers().fit_loss; });
  }
  add("syncs", [](const BanditRun& run) { return run.numbers().syncs; });
  add("replayed", [](const BanditRun& run) { return run.numbers().replayed; });
  add("scalars_sent", [](const BanditRun& run) { return run.numbers().scalars; });
  add("scalars_explore", [](const BanditRun& run) { return run.explore_scalars(); });
  return metrics;
}

std::vector<TableLines> BanditProtocol::take_lines() {
  if (lines_.empty()) return {};
  return {{.file = "bandit.csv",
           .header = "round,repeat,regret,regret_explore,syncs,replayed,scalars_sent,"
                     "scalars_explore,bytes_sent",
           .lines = std::exchange(lines_, {})}};
}

std::vector<ReturnedArm> BanditProtocol::returned() const {
  std::vector<ReturnedArm> returned;
  for (const auto& run : runs_) {
    if (completed_ == 0) break;
    const Arms& arms = run->setup().arms;
    const int64_t arm = run->returned_arm();
    const auto from = arms.points.begin() + arm * arms.inputs;
    returned.push_back({.arm = arm,
                        .value = arms.values[static_cast<std::size_t>(arm)],
                        .point = {from, from + arms.inputs}});
  }
  return returned;
}

void BanditProtocol::collect() {
  for (auto& run : runs_) run->collect();
  if (comm_.rank() != 0) return;
  row_.clear();
  for (const auto& run : runs_) {
    for (const double value : run->model()) row_.push_back(static_cast<float>(value));
  }
}

ParameterLayout BanditProtocol::model_layout() const {
  ParameterLayout layout;
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const std::string prefix = runs_.size() > 1 ? part_name(r) + "." : "";
    const BanditSetup& setup = runs_[r]->setup();
    const int64_t inputs = setup.arms.inputs;
    if (setup.own_models) {
      layout.add(prefix + "networks", {setup.clients, dimension_of(setup)}, inputs);
    } else if (setup.model == RewardModel::kNetwork) {
      const int64_t hidden = setup.oracle.hidden;
      layout.add(prefix + "hidden.weight", {hidden, inputs}, inputs);
      layout.add(prefix + "hidden.bias", {hidden}, inputs);
      layout.add(prefix + "output.weight", {hidden}, hidden);
      layout.add(prefix + "output.bias", {1}, hidden);
    } else if (of_kernel(setup)) {
      layout.add(prefix + "means", {setup.arms.size()}, inputs);
    } else {
      layout.add(prefix + "weight", {inputs}, inputs);
    }
  }
  return layout;
}

void BanditProtocol::visit(StateFields& fields) {
  fields.one("round", completed_);
  for (std::size_t r = 0; r < runs_.size(); ++r) fields.part(part_name(r), *runs_[r]);
}

}  // namespace hanse
