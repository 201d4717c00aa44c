// The runner that trains cohorts of clients side by side on a device.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "attempt.hpp"
#include "federated/client_runner.hpp"
#include "federated/device_engine/cohort_sink.hpp"
#include "federated/findings.hpp"
#include "federated/host_intake.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/index.hpp"
#include "hanse/client/cohort_update.hpp"

namespace hanse {

namespace {

class CohortRunner final : public ClientRunner {
 public:
  CohortRunner(const RunnerParts& parts, const FederatedSettings& settings,
               std::unique_ptr<CohortTraining> cohorts, std::unique_ptr<DeviceCommunicator> devices,
               std::unique_ptr<CohortTraining> tuning)
      : ClientRunner(parts, settings,
                     width_of(rule_state_blocks(parts.rule, parts.model.layout()))),
        cohorts_(std::move(cohorts)),
        tuning_(std::move(tuning)),
        devices_(std::move(devices)),
        model_(*cohorts_),
        update_(parts.update.cohort_update(*cohorts_, parts.model.layout())),
        tuner_(tuning_ ? parts.tuner->cohort_update(*tuning_, parts.model.layout()) : nullptr),
        losses_(size()),
        changes_(size() * controls()) {
    if (sums_on_host(parts)) {
      intake_ = std::make_unique<HostIntake>(parts, settings);
      intake_->sink().leave_model();
      rows_.resize(size() * to_index(parts.model.n_params()));
    } else {
      device_sink_ = std::make_unique<CohortSink>(parts, settings, *cohorts_, model_, *devices_);
    }
  }

  // Every rank has a device, rank 0 too.
  ScheduleTraits schedule() const override {
    return {.group = cohorts_->clients(), .server_hosts = true, .may_be_open = false};
  }
  UpdateSink& sink() override {
    return intake_ ? static_cast<UpdateSink&>(intake_->sink()) : *device_sink_;
  }

  void receive(std::span<float> model) override {
    model_.bring();
    devices_->bcast(model, cohorts_->cohort().theta(), 0);
    model_.has_received(model);
  }
  void bring() override { model_.bring(); }
  Evaluator& evaluator(std::span<const float> row) override { return model_.at(row); }

  Evaluator& view(const RoundContext& round, int64_t client, View view) override {
    if (view != View::kReceived) return own_model(round, client, view == View::kTuned);
    if (!has_state(client)) return model_.at(round.model);
    model_.bring();
    std::vector<float> row(round.model.begin(), round.model.end());
    parts_.update.receive(states()->existing_row(client), row);
    return model_.at(row);
  }

  void run(const RoundContext& round, Findings& findings) override {
    if (intake_) intake_->start(round, findings);
    const std::size_t all = round.plan.size();
    Deadline deadline(settings_.round_seconds);
    for (std::size_t begin = 0; begin < all; begin += size()) {
      if (round.plan.entries()[begin].worker != round.plan.worker()) continue;
      const std::size_t end = std::min(begin + size(), all);
      if (!deadline.starts(elapsed_s(round), static_cast<int64_t>(end - begin))) continue;
      for (const auto& entries : together(round, begin, end)) {
        attempt(round.failure, [&] { train(round, entries, deadline, findings); });
      }
    }
    if (intake_) attempt(round.failure, [&] { intake_->finish(); });
    if (deadline.factor() > 1 && !round.failure) sink().scale(deadline.factor());
  }

  // A cohort of neighbours is the same on any number of ranks; clients whose states lie on one of
  // them train there, each in a cohort of its own.
  void find_squared_steps(const RoundContext& round, std::span<double> squared) override {
    model_.at(round.model);
    if (update_->reads_received()) model_.bring();
    const std::size_t together = has_states() ? 1 : size();
    for (std::size_t begin = 0; begin < squared.size(); begin += together) {
      const auto client = static_cast<int64_t>(begin);
      const Communicator& comm = parts_.comm;
      const bool mine = has_states() ? round.plan.homes().keeps(client)
                                     : client / cohorts_->clients() % comm.size() == comm.rank();
      if (!mine) continue;
      const auto part = squared.subspan(begin, std::min(together, squared.size() - begin));
      std::fill(part.begin(), part.end(), 0);  // stands in after a failure, which drops the round
      attempt(round.failure, [&] { measure(round, client, part); });
    }
  }

  int64_t bytes_moved() const override {
    return parts_.comm.bytes_moved() + devices_->bytes_moved();
  }
  void collect(const EntryStates& states) override {
    if (device_sink_) device_sink_->server().collect(states);
  }
  void forget_server() override {
    if (device_sink_) device_sink_->server().forget();
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(cohorts_->clients()); }

  // A client's own model: the one that it keeps, which a client that is held out has to train, or
  // that of a round of training; tuned if asked for.
  Evaluator& own_model(const RoundContext& round, int64_t client, bool tuned) {
    Evaluator& received = model_.at(round.model);
    if (parts_.federation.train(client).size() == 0) return received;
    model_.bring();
    std::vector<float> row(round.model.begin(), round.model.end());
    const bool keeps = parts_.update.keeps_own_model();
    if (settings_.own_models && (keeps || !tuner_)) {
      std::vector<float> state = state_copy(client);
      ClientTask task = cohort_task(round, client, 0, state);
      if (!keeps || client >= parts_.federation.clients()) {
        update_->train(std::span(&task, 1), round.model);
        cohorts_->cohort().take_rows(row);
      }
      task.row = row;
      if (keeps) parts_.update.own_model(task);
    }
    if (tuned && tuner_) tune(round, client, row);
    return model_.at(row);
  }

  void tune(const RoundContext& round, int64_t client, std::span<float> row) {
    const ClientTask task{.client = client, .round = round.number, .seed = settings_.seed};
    tuning_->cohort().put_theta(row);
    tuner_->train(std::span(&task, 1), row);
    tuning_->cohort().take_rows(row);
  }

  ClientTask cohort_task(const RoundContext& round, int64_t client, std::size_t place,
                         std::span<float> state) {
    const auto change = std::span(changes_).subspan(place * controls(), controls());
    std::fill(change.begin(), change.end(), 0.0F);
    return task_of(round, client, state, change);
  }

  // Clients of a cohort in training: the entries of the plan, and what each works on.
  struct Members {
    std::vector<std::size_t> entries;
    std::vector<ClientTask> tasks;
    std::vector<std::span<const float>> received;
    bool differ = false;  // in what they received
    ReceivedModels models() const {
      if (differ) return std::span(received);
      return received.front();
    }
  };

  void train(const RoundContext& round, const std::vector<std::size_t>& entries, Deadline& deadline,
             Findings& findings) {
    const double start_s = settings_.clock->now_s();
    const Members members = members_of(round, entries);
    if (!members.differ) model_.at(members.received.front());
    if (members.differ || intake_ || update_->reads_received()) model_.bring();
    auto outcomes = update_->train(members.tasks, members.models());
    // A time limit asks when the training has ended; the host's rows wait for the device.
    if (settings_.round_seconds > 0 || intake_) cohorts_->cohort().take_losses(losses_);
    if (!deadline.counts(elapsed_s(round))) {
      update_->finish(losses_, members.models(), outcomes);
      return;
    }
    if (!intake_) return add_there(round, members, outcomes, start_s, findings);
    update_->finish(losses_, members.models(), outcomes);
    add_on_host(round, members, outcomes, start_s);
  }

  Members members_of(const RoundContext& round, const std::vector<std::size_t>& entries) {
    Members members{.entries = entries};
    for (const std::size_t entry : entries) {
      const int64_t client = round.plan.entries()[entry].client;
      const RoundContext own = round.of(entry);
      members.tasks.push_back(cohort_task(own, client, members.tasks.size(), state_of(client)));
      members.received.push_back(own.model);
      members.differ = members.differ || own.model.data() != members.received.front().data();
    }
    return members;
  }

  double share_of(double start_s, const Members& members) const {
    return (settings_.clock->now_s() - start_s) / static_cast<double>(members.tasks.size());
  }

  // The rows stay on the device, whose sink takes them.
  void add_there(const RoundContext& round, const Members& members,
                 std::vector<ClientOutcome>& outcomes, double start_s, Findings& findings) {
    std::vector<double> coefficients;
    std::vector<int64_t> positions;
    for (const std::size_t at : members.entries) {
      coefficients.push_back(round.plan.entries()[at].coefficient);
      positions.push_back(round.plan.entries()[at].position);
    }
    auto taken = device_sink_->take(update_->origin(), coefficients, positions, losses_);
    update_->finish(losses_, members.models(), outcomes);
    const double seconds = share_of(start_s, members);
    SecondRow& second_row = device_sink_->second_row();
    for (std::size_t i = 0; i < members.tasks.size(); ++i) {
      std::ranges::copy(members.tasks[i].control_change, second_row.row().begin());
      const Assignment& entry = round.plan.entries()[members.entries[i]];
      const FoldResult second = second_row.fold(entry.importance);
      taken[i].in_range = taken[i].in_range && second.in_range;
      note_training(round, entry.client, members.entries[i], outcomes[i], taken[i], seconds,
                    UpdateSum::limit(settings_.max_participants), findings);
    }
  }

  // The rows come to the host's memory in one transfer, and its sink takes one after the other.
  void add_on_host(const RoundContext& round, const Members& members,
                   const std::vector<ClientOutcome>& outcomes, double start_s) {
    take_rows(members.tasks.size());
    const double seconds = share_of(start_s, members);
    for (std::size_t i = 0; i < members.tasks.size(); ++i) {
      const double own_start_s = settings_.clock->now_s();
      const RoundContext own = round.of(members.entries[i]);
      intake_->go_on_from(own.model);
      put_trained(i, members.tasks[i].control_change);
      intake_->take(own, members.entries[i], outcomes[i], seconds, own_start_s,
                    state_of(members.tasks[i].client));
    }
  }

  void take_rows(std::size_t clients) {
    const std::size_t width = rows_.size() / size();
    cohorts_->cohort().take_rows(std::span(rows_).first(clients * width));
  }
  // Makes the client of that place the one that has trained on the host.
  void put_trained(std::size_t place, std::span<const float> control_change) {
    const std::size_t width = rows_.size() / size();
    intake_->sink().set_row(std::span(rows_).subspan(place * width, width));
    std::ranges::copy(control_change, intake_->control_change().begin());
  }

  // The entries [begin, end) of the plan as they train side by side. A client's tasks train one
  // after another where each needs the state that the one before has left. Those with the most
  // steps come first: the others rest together.
  std::vector<std::vector<std::size_t>> together(const RoundContext& round, std::size_t begin,
                                                 std::size_t end) const {
    std::vector<std::vector<std::size_t>> groups(1);
    std::map<int64_t, std::size_t> tasks;  // of a client, so far
    for (std::size_t entry = begin; entry < end; ++entry) {
      const std::size_t group = has_states() ? tasks[round.plan.entries()[entry].client]++ : 0;
      if (group == groups.size()) groups.emplace_back();
      groups[group].push_back(entry);
    }
    const auto samples = [&](std::size_t entry) {
      return samples_processed(parts_.update.steps().work(),
                               parts_.federation.train(round.plan.entries()[entry].client).size(),
                               round.of(entry).steps);
    };
    for (auto& group : groups) std::ranges::stable_sort(group, std::ranges::greater(), samples);
    return groups;
  }

  void measure(const RoundContext& round, int64_t first, std::span<double> squared) {
    std::vector<ClientTask> tasks;
    std::vector<std::vector<float>> states;
    for (int64_t client = first; client < first + std::ssize(squared); ++client) {
      tasks.push_back(
          cohort_task(round, client, tasks.size(), states.emplace_back(state_copy(client))));
    }
    auto outcomes = update_->train(tasks, round.model);
    if (intake_) return measure_on_host(round, tasks, outcomes, states, squared);
    const auto found = device_sink_->measure(update_->origin(), tasks.size(), losses_);
    update_->finish(losses_, round.model, outcomes);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      squared[i] = checked_squared_step(round, tasks[i].client, outcomes[i], found[i].squared_norm);
    }
  }

  void measure_on_host(const RoundContext& round, std::span<const ClientTask> tasks,
                       std::vector<ClientOutcome>& outcomes, std::span<std::vector<float>> states,
                       std::span<double> squared) {
    cohorts_->cohort().take_losses(losses_);
    update_->finish(losses_, round.model, outcomes);
    take_rows(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      intake_->start_apart(round.model);
      put_trained(i, tasks[i].control_change);
      squared[i] = intake_->squared_step(round, tasks[i].client, outcomes[i], states[i]);
    }
  }

  std::unique_ptr<CohortTraining> cohorts_, tuning_;  // a client alone is tuned; null: nobody is
  std::unique_ptr<DeviceCommunicator> devices_;
  ModelOnDevice model_;
  std::unique_ptr<CohortUpdate> update_, tuner_;
  std::unique_ptr<CohortSink> device_sink_;  // one of these two
  std::unique_ptr<HostIntake> intake_;
  std::vector<float> rows_;     // [C, P] of the last cohort, for the host's sink
  std::vector<double> losses_;  // [C] likewise
  std::vector<float> changes_;  // [C, control width] of the cohort in training
};

}  // namespace

RunnerPtr make_cohort_runner(const RunnerParts& parts, const FederatedSettings& settings,
                             std::unique_ptr<CohortTraining> cohorts,
                             std::unique_ptr<DeviceCommunicator> devices,
                             std::unique_ptr<CohortTraining> tuning) {
  return std::make_shared<CohortRunner>(parts, settings, std::move(cohorts), std::move(devices),
                                        std::move(tuning));
}

}  // namespace hanse
