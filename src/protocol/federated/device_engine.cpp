#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attempt.hpp"
#include "federated/engine.hpp"
#include "federated/report.hpp"
#include "federated/round_plan.hpp"
#include "federated/second_row.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/client/cohort_update.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/protocol/schedule.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

std::optional<Refusal> device_refusal(const RoundNeeds& needs) {
  const FederatedSettings& settings = needs.settings;
  const ClientOptions& client = settings.client;
  const std::string cannot = " is not trained on GPUs";
  const std::string own_loss = own_loss_key(client);
  const bool rule_keeps = needs.rule.last_updates || needs.rule.sign_share;
  const std::pair<bool, Refusal> refusals[] = {
      {needs.labels.values > 1 || needs.labels.multi_label,
       {"a label of several values" + cannot, "data.kind", "use data with one label a sample"}},
      {rule_keeps,
       {fmt::format("what {} keeps of each client does not lie on GPUs", needs.rule_kind),
        "aggregator.kind", "use another"}},
      {!own_loss.empty(),
       {"another loss than model.loss" + cannot, own_loss, "leave it as it is by default"}},
      {client.optimizer.state == "kept" && client.momentum > 0,
       {"momentum that clients keep" + cannot, "client.optimizer-state", "use fresh"}},
      {!client.train.empty() || client.lora > 0,
       {"a part of a model" + cannot, client.lora > 0 ? "client.lora" : "client.train",
        "leave it as it is by default"}},
      {!augmentation_key(client.augmentation).empty(),
       {"an augmented image" + cannot, augmentation_key(client.augmentation),
        "leave it as it is by default"}},
      {!needs.moves_all,
       {"a model with buffers or frozen parameters" + cannot, "model.path",
        "use group norm, which has no buffers"}},
      {client.accumulate > 1, {"a step of several batches" + cannot, "client.accumulate", "use 1"}},
      {!needs.update.trains_side_by_side(),
       {needs.update_kind + cannot + " with these options", "client.update", "use sgd or prox"}},
      {settings.comm.compress != "none",
       {"updates are not compressed on GPUs", "comm.compress", "use none"}},
      {settings.tune_steps > 0,
       {"models are not tuned for evaluations on GPUs", "evaluate.tune-steps", "use 0"}},
      {settings.own_models && !needs.update.keeps_own_model(),
       {"models that clients do not keep are not made on GPUs", "evaluate.view",
        "use evaluate.view = global"}},
  };
  if (needs.off_gpus) return needs.off_gpus;
  for (const auto& [applies, refusal] : refusals) {
    if (applies) return refusal;
  }
  return std::nullopt;
}

namespace {

class DeviceEngine final : public Engine, private SoloTraining {
 public:
  DeviceEngine(const EngineParts& parts, const FederatedSettings& settings,
               std::unique_ptr<CohortTraining> cohorts, std::unique_ptr<DeviceCommunicator> devices)
      : comm_(parts.comm),
        federation_(parts.federation),
        settings_(settings),
        cohorts_(std::move(cohorts)),
        devices_(std::move(devices)),
        update_(parts.update),
        cohort_update_(parts.update.cohort_update(*cohorts_, parts.model.n_params())),
        reduction_(settings.comm.reduction == "fast" ? Reduction::kFast : Reduction::kExact),
        sum_(torch_library().make_device_sum(parts.model.n_params(), settings.max_participants,
                                             reduction_, cohorts_->device())),
        device_server_(torch_library().make_device_server(comm_, *devices_, parts.model.n_params(),
                                                          cohorts_->device())),
        second_row_(update_.control_width(), settings.max_participants, reduction_),
        n_params_(parts.model.n_params()) {
    losses_.resize(cohort());
    if (comm_.rank() == 0) step_.resize(SentRow(parts.model).size);
    if (parts.rule.after_training()) {
      kept_ = torch_library().make_device_updates(
          comm_, *devices_, row_parts(parts.model.layout(), parts.rule.layers), cohorts_->device());
    }
    if (update_.state_width() == 0) return;
    states_ = std::make_unique<ClientStateStore>(
        update_.state_width(), settings_.client.state_memory << 20, settings_.state_folder);
  }

  // Every rank has a device, rank 0 too.
  ScheduleTraits schedule() const override {
    return {.group = cohorts_->clients(), .server_hosts = true, .may_be_open = false};
  }
  ClientStateStore* states() override { return states_.get(); }
  SoloTraining* solo() override { return this; }

  void receive(std::span<float> model) override {
    devices_->bcast(model, cohorts_->cohort().theta(), 0);
    has_other_ = false;
  }
  Evaluator& shared_model(std::span<const float> model) override {
    return has_other_ ? at(model, false) : *cohorts_;
  }
  Evaluator& received_model(int64_t client, std::span<const float> model) override {
    if (!states_ || !states_->contains(client)) return shared_model(model);
    std::vector<float> row(model.begin(), model.end());
    update_.receive(states_->existing_row(client), row);
    return at(row, true);
  }

  void train(const RoundContext& round, Findings& findings) override {
    shared_model(round.model);
    const std::size_t all = round.plan.size();
    Deadline deadline(settings_.round_seconds);
    for (std::size_t begin = 0; begin < all; begin += cohort()) {
      if (round.plan.entries()[begin].worker != round.plan.worker()) continue;
      const std::size_t end = std::min(begin + cohort(), all);
      if (!deadline.starts(elapsed_s(round), static_cast<int64_t>(end - begin))) continue;
      attempt(round.failure, [&] { train_cohort(round, begin, end, deadline, findings); });
    }
    if (deadline.factor() > 1 && !round.failure) sum_->scale(deadline.factor());
  }

  // A cohort of neighbours is the same on any number of ranks; clients whose states lie on one of
  // them train there, each in a cohort of its own.
  void find_squared_steps(const RoundContext& round, std::span<double> squared) override {
    shared_model(round.model);
    const std::size_t size = states_ ? 1 : cohort();
    for (std::size_t begin = 0; begin < squared.size(); begin += size) {
      const auto client = static_cast<int64_t>(begin);
      const bool mine = states_ ? round.plan.homes().keeps(client)
                                : client / cohorts_->clients() % comm_.size() == comm_.rank();
      if (!mine) continue;
      const auto part = squared.subspan(begin, std::min(size, squared.size() - begin));
      std::fill(part.begin(), part.end(), 0);  // stands in after a failure, which drops the round
      attempt(round.failure, [&] { find_cohort_steps(round, client, part); });
    }
  }

  std::vector<double> gram(int64_t k, std::span<const int64_t>) override { return kept_->gram(k); }
  int64_t fold_kept(std::span<const double> coefficients, int64_t k) override {
    return kept_->fold(coefficients, k, *sum_);
  }
  void drop_kept() override { kept_->clear(); }

  std::span<const float> reduce_second_row() override { return second_row_.reduce(comm_); }

  ExchangeReport exchange(std::span<float> model, const SumStep& sum_step) override {
    const auto value_bytes = reduction_ == Reduction::kExact ? sizeof(int64_t) : sizeof(float);
    ExchangeReport done{.sum_bytes = n_params_ * static_cast<int64_t>(value_bytes)};
    done.shares_model = step_on_devices(model, sum_step, done.times.reduce_s);
    if (done.shares_model) return done;
    const ExchangeStep& step = sum_step.part;
    {
      const PhaseTimer timer(done.times.reduce_s);
      sum_->reduce(*devices_, 0);
      if (step) {
        sum_->take(step_);
      } else {
        sum_->clear();
      }
    }
    const PhaseTimer timer(done.times.step_s);
    if (step) step(0, step_);
    return done;
  }

  int64_t bytes_moved() const override { return comm_.bytes_moved() + devices_->bytes_moved(); }

  void collect(const EntryStates& states) override { device_server_->collect(states); }
  void forget_server() override { device_server_->forget(); }

 private:
  // Does nothing unless rank 0's step is that of each entry alone. Otherwise all ranks have the new
  // model, on their devices and in `model`.
  bool step_on_devices(std::span<float> model, const SumStep& step, double& seconds) {
    struct {
      int64_t is_by_entry;
      EntryStep step;
    } message{step.by_entry.has_value(), step.by_entry.value_or(EntryStep())};
    comm_.bcast(std::as_writable_bytes(std::span(&message, 1)), 0);
    if (!message.is_by_entry) return false;
    const PhaseTimer timer(seconds);
    shared_model(model);
    Cohort& cohort = cohorts_->cohort();
    device_server_->step(message.step, step.states, *sum_, cohort.theta());
    cohort.take_theta(model);
    return true;
  }

  // What a client that keeps its own model has of it; one that is held out trains for it first.
  Evaluator& viewed_model(const RoundContext& round, int64_t client, bool) override {
    shared_model(round.model);
    if (federation_.train(client).size() == 0) return *cohorts_;
    std::vector<float> row(round.model.begin(), round.model.end());
    std::vector<float> state = state_copy(client);
    ClientTask task = task_of(round, client, 0, state);
    if (client >= federation_.clients()) {
      cohort_update_->train(std::span(&task, 1), round.model);
      cohorts_->cohort().take_rows(row);
    }
    task.row = row;
    update_.own_model(task);
    return at(row, true);
  }

  // Of a model that the device gets from the host, the received one or another.
  Evaluator& at(std::span<const float> row, bool is_other) {
    cohorts_->cohort().put_theta(row);
    has_other_ = is_other;
    return *cohorts_;
  }

  std::size_t cohort() const { return static_cast<std::size_t>(cohorts_->clients()); }
  double elapsed_s(const RoundContext& round) const { return settings_.clock() - round.start_s; }

  // The cohort's, on their way to losses_.
  Along losses() { return {.from = &cohorts_->cohort().losses(), .to = losses_}; }

  ClientTask task_of(const RoundContext& round, int64_t client, std::size_t place,
                     std::span<float> state) {
    const auto width = static_cast<std::size_t>(update_.control_width());
    changes_.resize(cohort() * width);
    const auto change = std::span(changes_).subspan(place * width, width);
    std::fill(change.begin(), change.end(), 0.0F);
    return {.client = client,
            .round = round.number,
            .seed = settings_.seed,
            .row = {},
            .state = state,
            .control = round.control,
            .control_change = change};
  }

  // Zeros before the client's first participation.
  std::vector<float> state_copy(int64_t client) const {
    if (!states_ || !states_->contains(client)) {
      return std::vector<float>(static_cast<std::size_t>(update_.state_width()));
    }
    const auto kept = states_->existing_row(client);
    return {kept.begin(), kept.end()};
  }

  void train_cohort(const RoundContext& round, std::size_t begin, std::size_t end,
                    Deadline& deadline, Findings& findings) {
    const double start_s = settings_.clock();
    std::vector<ClientTask> tasks;
    std::vector<double> coefficients;
    std::vector<int64_t> positions;
    const auto entries = round.plan.entries().subspan(begin, end - begin);
    for (const Assignment& entry : entries) {
      const auto state = states_ ? states_->row(entry.client) : std::span<float>();
      tasks.push_back(task_of(round, entry.client, tasks.size(), state));
      coefficients.push_back(entry.coefficient);
      positions.push_back(entry.position);
    }
    auto outcomes = cohort_update_->train(tasks, round.model);
    const Cohort& cohort = cohorts_->cohort();
    if (settings_.round_seconds > 0) cohort.take_losses(losses_);  // known before it is folded
    if (!deadline.counts(elapsed_s(round))) {
      cohort_update_->finish(losses_, round.model, outcomes);
      return;
    }
    const at::Tensor& origin = cohort_update_->origin();
    auto folded = kept_ ? kept_->keep(cohort.rows(), origin, positions, losses())
                        : sum_->fold(cohort.rows(), origin, coefficients, 0, losses());
    cohort_update_->finish(losses_, round.model, outcomes);
    const double seconds = (settings_.clock() - start_s) / static_cast<double>(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      std::copy(tasks[i].control_change.begin(), tasks[i].control_change.end(),
                second_row_.row().begin());
      const FoldResult second = second_row_.fold(entries[i].importance);
      folded[i].in_range = folded[i].in_range && second.in_range;
      note_training(round, begin + i, outcomes[i], folded[i], seconds,
                    UpdateSum::limit(settings_.max_participants), findings);
    }
  }

  // Updates that count nothing add zeros to the sum, and tell their norms.
  void find_cohort_steps(const RoundContext& round, int64_t first, std::span<double> squared) {
    std::vector<ClientTask> tasks;
    std::vector<std::vector<float>> states;
    for (int64_t client = first; client < first + std::ssize(squared); ++client) {
      tasks.push_back(
          task_of(round, client, tasks.size(), states.emplace_back(state_copy(client))));
    }
    auto outcomes = cohort_update_->train(tasks, round.model);
    const auto folded = sum_->fold(cohorts_->cohort().rows(), cohort_update_->origin(),
                                   std::vector<double>(tasks.size()), 0, losses());
    cohort_update_->finish(losses_, round.model, outcomes);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      squared[i] =
          checked_squared_step(round, tasks[i].client, outcomes[i], folded[i].squared_norm);
    }
  }

  Communicator& comm_;
  const Federation& federation_;
  FederatedSettings settings_;
  std::unique_ptr<CohortTraining> cohorts_;
  std::unique_ptr<DeviceCommunicator> devices_;
  LocalUpdate& update_;
  std::unique_ptr<CohortUpdate> cohort_update_;
  Reduction reduction_;
  std::unique_ptr<DeviceSum> sum_;
  std::unique_ptr<DeviceServer> device_server_;
  SecondRow second_row_;
  int64_t n_params_;
  std::unique_ptr<DeviceUpdates> kept_;  // null: updates are folded as they are made
  std::unique_ptr<ClientStateStore> states_;
  bool has_other_ = false;      // another model than the received one stands on the device
  std::vector<double> losses_;  // [C] of the last cohort
  std::vector<float> changes_;  // [C, control width] of the cohort in training
  std::vector<float> step_;     // [P] the mixed update, rank 0
};

}  // namespace

EnginePtr make_device_engine(const EngineParts& parts, const FederatedSettings& settings,
                             std::unique_ptr<CohortTraining> cohorts,
                             std::unique_ptr<DeviceCommunicator> devices) {
  return std::make_shared<DeviceEngine>(parts, settings, std::move(cohorts), std::move(devices));
}

}  // namespace hanse
