// The runner that trains cohorts of clients side by side on a device.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "attempt.hpp"
#include "federated/client_runner.hpp"
#include "federated/device_engine/cohort_sink.hpp"
#include "federated/findings.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/cohort_update.hpp"

namespace hanse {

namespace {

class CohortRunner final : public ClientRunner {
 public:
  CohortRunner(const RunnerParts& parts, const FederatedSettings& settings,
               std::unique_ptr<CohortTraining> cohorts, std::unique_ptr<DeviceCommunicator> devices)
      : ClientRunner(parts, settings, 0),
        cohorts_(std::move(cohorts)),
        devices_(std::move(devices)),
        model_(*cohorts_),
        update_(parts.update.cohort_update(*cohorts_, parts.model.layout())),
        sink_(parts, settings, *cohorts_, model_, *devices_),
        losses_(size()),
        changes_(size() * controls()) {}

  // Every rank has a device, rank 0 too.
  ScheduleTraits schedule() const override {
    return {.group = cohorts_->clients(), .server_hosts = true, .may_be_open = false};
  }
  UpdateSink& sink() override { return sink_; }

  void receive(std::span<float> model) override {
    model_.bring();
    devices_->bcast(model, cohorts_->cohort().theta(), 0);
    model_.has_received(model);
  }
  void bring() override { model_.bring(); }
  Evaluator& evaluator(std::span<const float> row) override { return model_.at(row); }

  Evaluator& view(const RoundContext& round, int64_t client, View view) override {
    if (view != View::kReceived) return own_model(round, client);
    if (!has_state(client)) return model_.at(round.model);
    model_.bring();
    std::vector<float> row(round.model.begin(), round.model.end());
    parts_.update.receive(states()->existing_row(client), row);
    return model_.at(row);
  }

  void run(const RoundContext& round, Findings& findings) override {
    const std::size_t all = round.plan.size();
    Deadline deadline(settings_.round_seconds);
    for (std::size_t begin = 0; begin < all; begin += size()) {
      if (round.plan.entries()[begin].worker != round.plan.worker()) continue;
      const std::size_t end = std::min(begin + size(), all);
      if (!deadline.starts(elapsed_s(round), static_cast<int64_t>(end - begin))) continue;
      attempt(round.failure, [&] { train(round, begin, end, deadline, findings); });
    }
    if (deadline.factor() > 1 && !round.failure) sink_.scale(deadline.factor());
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
  void collect(const EntryStates& states) override { sink_.server().collect(states); }
  void forget_server() override { sink_.server().forget(); }

 private:
  std::size_t size() const { return static_cast<std::size_t>(cohorts_->clients()); }

  // A client's own model if it keeps one; a client that is held out trains for it first.
  Evaluator& own_model(const RoundContext& round, int64_t client) {
    Evaluator& received = model_.at(round.model);
    if (parts_.federation.train(client).size() == 0) return received;
    model_.bring();
    std::vector<float> row(round.model.begin(), round.model.end());
    std::vector<float> state = state_copy(client);
    ClientTask task = cohort_task(round, client, 0, state);
    if (client >= parts_.federation.clients()) {
      update_->train(std::span(&task, 1), round.model);
      cohorts_->cohort().take_rows(row);
    }
    task.row = row;
    parts_.update.own_model(task);
    return model_.at(row);
  }

  ClientTask cohort_task(const RoundContext& round, int64_t client, std::size_t place,
                         std::span<float> state) {
    const auto change = std::span(changes_).subspan(place * controls(), controls());
    std::fill(change.begin(), change.end(), 0.0F);
    return task_of(round, client, state, change);
  }

  void train(const RoundContext& round, std::size_t begin, std::size_t end, Deadline& deadline,
             Findings& findings) {
    const double start_s = settings_.clock->now_s();
    const std::span<const float> model = round.of(begin).model;
    model_.at(model);
    if (update_->reads_received()) model_.bring();
    std::vector<ClientTask> tasks;
    std::vector<double> coefficients;
    std::vector<int64_t> positions;
    const std::vector<std::size_t> order = longest_first(round, begin, end);
    for (const std::size_t at : order) {
      const Assignment& entry = round.plan.entries()[at];
      const RoundContext own = round.of(at);
      if (own.model.data() != model.data()) {
        throw Error("the clients of a cohort start from several models");
      }
      tasks.push_back(cohort_task(own, entry.client, tasks.size(), state_of(entry.client)));
      coefficients.push_back(entry.coefficient);
      positions.push_back(entry.position);
    }
    auto outcomes = update_->train(tasks, model);
    if (settings_.round_seconds > 0) cohorts_->cohort().take_losses(losses_);  // before they count
    if (!deadline.counts(elapsed_s(round))) {
      update_->finish(losses_, model, outcomes);
      return;
    }
    auto taken = sink_.take(update_->origin(), coefficients, positions, losses_);
    update_->finish(losses_, model, outcomes);
    const double seconds = (settings_.clock->now_s() - start_s) / static_cast<double>(tasks.size());
    SecondRow& second_row = sink_.second_row();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      std::copy(tasks[i].control_change.begin(), tasks[i].control_change.end(),
                second_row.row().begin());
      const Assignment& entry = round.plan.entries()[order[i]];
      const FoldResult second = second_row.fold(entry.importance);
      taken[i].in_range = taken[i].in_range && second.in_range;
      note_training(round, entry.client, order[i], outcomes[i], taken[i], seconds,
                    UpdateSum::limit(settings_.max_participants), findings);
    }
  }

  // The entries [begin, end) of the plan, those with the most samples first: they make the most
  // steps, and the others rest together.
  std::vector<std::size_t> longest_first(const RoundContext& round, std::size_t begin,
                                         std::size_t end) const {
    std::vector<std::size_t> order(end - begin);
    std::iota(order.begin(), order.end(), begin);
    const auto samples = [&](std::size_t entry) {
      return parts_.federation.train(round.plan.entries()[entry].client).size();
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return samples(a) > samples(b); });
    return order;
  }

  void measure(const RoundContext& round, int64_t first, std::span<double> squared) {
    std::vector<ClientTask> tasks;
    std::vector<std::vector<float>> states;
    for (int64_t client = first; client < first + std::ssize(squared); ++client) {
      tasks.push_back(
          cohort_task(round, client, tasks.size(), states.emplace_back(state_copy(client))));
    }
    auto outcomes = update_->train(tasks, round.model);
    const auto found = sink_.measure(update_->origin(), tasks.size(), losses_);
    update_->finish(losses_, round.model, outcomes);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      squared[i] = checked_squared_step(round, tasks[i].client, outcomes[i], found[i].squared_norm);
    }
  }

  std::unique_ptr<CohortTraining> cohorts_;
  std::unique_ptr<DeviceCommunicator> devices_;
  ModelOnDevice model_;
  std::unique_ptr<CohortUpdate> update_;
  CohortSink sink_;
  std::vector<double> losses_;  // [C] of the last cohort
  std::vector<float> changes_;  // [C, control width] of the cohort in training
};

}  // namespace

RunnerPtr make_cohort_runner(const RunnerParts& parts, const FederatedSettings& settings,
                             std::unique_ptr<CohortTraining> cohorts,
                             std::unique_ptr<DeviceCommunicator> devices) {
  return std::make_shared<CohortRunner>(parts, settings, std::move(cohorts), std::move(devices));
}

}  // namespace hanse
