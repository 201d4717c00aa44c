#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attempt.hpp"
#include "federated/engine.hpp"
#include "federated/report.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

std::optional<Refusal> device_refusal(const RoundNeeds& needs) {
  const FederatedSettings& settings = needs.settings;
  const ClientOptions& client = settings.client;
  const LocalUpdate& update = needs.update;
  const std::string cannot = " is not trained on GPUs";
  const std::string of_rule = "the client of " + needs.rule_kind + cannot;
  const std::string of_all = "what all clients would report is not found out on GPUs";
  const std::string own_loss = own_loss_key(client);
  const bool has_states = update.state_width() > 0;
  const bool rule_keeps = needs.rule.last_updates || needs.rule.sign_share;
  const bool sends_more = update.control_width() > 0 || update.sends_direction();
  const std::pair<bool, Refusal> refusals[] = {
      {client.pooled || client.alone,
       {fmt::format("a {} run{}", needs.protocol, cannot), "run.protocol", "use federated"}},
      {!has_cohort(needs.model_kind),
       {fmt::format("a {}{}", needs.model_kind, cannot), "model.kind",
        "use linear, mlp, cnn-leaf, cnn-cifar or lenet"}},
      {needs.labels.values > 1 || needs.labels.multi_label,
       {"a label of several values" + cannot, "data.kind", "use data with one label a sample"}},
      {rule_keeps,
       {fmt::format("what {} keeps of each client does not lie on GPUs", needs.rule_kind),
        "aggregator.kind", "use another"}},
      {!own_loss.empty(),
       {"another loss than model.loss" + cannot, own_loss, "leave it as it is by default"}},
      {client.optimizer.kind != "sgd" || (client.optimizer.state == "kept" && client.momentum > 0),
       {client.optimizer.kind + " with moments of its own" + cannot, "client.optimizer",
        "use sgd, with client.optimizer-state = fresh"}},
      {!client.train.empty() || client.lora > 0,
       {"a part of a model" + cannot, client.lora > 0 ? "client.lora" : "client.train",
        "leave it as it is by default"}},
      {!augmentation_key(client.augmentation).empty(),
       {"an augmented image" + cannot, augmentation_key(client.augmentation),
        "leave it as it is by default"}},
      {client.accumulate > 1, {"a step of several batches" + cannot, "client.accumulate", "use 1"}},
      {client.schedule.over == "steps",
       {"clients that are trained side by side have one step size a round", "client.schedule-over",
        "use rounds"}},
      {needs.rule.rates, {of_rule, "aggregator.kind", "use another"}},
      {!client.personal.empty() && has_states,
       {"a model with tensors of each client's own" + cannot, "client.personal", "leave it empty"}},
      {has_states || sends_more, {needs.update_kind + cannot, "client.update", "use sgd or prox"}},
      {!update.is_sgd(), {of_rule, "aggregator.kind", "use another"}},
      {settings.comm.compress != "none",
       {"updates are not compressed on GPUs", "comm.compress", "use none"}},
      {settings.comm.reduction != "exact",
       {"sums on GPUs are exact", "comm.reduction", "use exact"}},
      {settings.round_seconds > 0,
       {"clients that are trained side by side end together", "run.round-seconds", "use 0"}},
      {settings.regret, {of_all, "evaluate.regret", "use false"}},
      {needs.all_clients_first, {of_all, "sampler.kind", "use another"}},
      {settings.tune_steps > 0,
       {"models are not tuned for evaluations on GPUs", "evaluate.tune-steps", "use 0"}},
      {settings.own_models,
       {"clients' own models are not made on GPUs", "evaluate.view", "use evaluate.view = global"}},
  };
  for (const auto& [applies, refusal] : refusals) {
    if (applies) return refusal;
  }
  return std::nullopt;
}

namespace {

class DeviceEngine final : public Engine {
 public:
  DeviceEngine(const EngineParts& parts, const FederatedSettings& settings,
               std::unique_ptr<CohortTraining> cohorts, std::unique_ptr<DeviceCommunicator> devices)
      : comm_(parts.comm),
        settings_(settings),
        cohorts_(std::move(cohorts)),
        devices_(std::move(devices)),
        sum_(torch_library().make_device_sum(parts.model.n_params(), settings.max_participants,
                                             cohorts_->device())),
        n_params_(parts.model.n_params()) {
    if (comm_.rank() == 0) step_.resize(SentRow(parts.model).size);
    if (!parts.rule.after_training()) return;
    kept_ = torch_library().make_device_updates(
        comm_, *devices_, row_parts(parts.model.layout(), parts.rule.layers), cohorts_->device());
  }

  // Every rank has a device, rank 0 too.
  ScheduleTraits schedule() const override {
    return {.group = cohorts_->clients(), .server_hosts = true, .may_be_open = false};
  }

  void receive(std::span<float> model) override {
    devices_->bcast(model, cohorts_->cohort().theta(), 0);
  }
  Evaluator& shared_model(std::span<const float>) override { return *cohorts_; }
  Evaluator& received_model(int64_t, std::span<const float>) override { return *cohorts_; }

  void train(const RoundContext& round, Findings& findings) override {
    const auto cohort = static_cast<std::size_t>(cohorts_->clients());
    const std::size_t all = round.plan.size();
    for (std::size_t begin = 0; begin < all; begin += cohort) {
      if (round.plan.entries()[begin].worker != round.plan.worker()) continue;
      attempt(round.failure,
              [&] { train_cohort(round, begin, std::min(begin + cohort, all), findings); });
    }
  }

  std::vector<double> gram(int64_t k, std::span<const int64_t>) override { return kept_->gram(k); }
  int64_t fold_kept(std::span<const double> coefficients, int64_t k) override {
    return kept_->fold(coefficients, k, *sum_);
  }
  void drop_kept() override { kept_->clear(); }

  ExchangeReport exchange(std::span<float>, const PartStep& step) override {
    ExchangeReport done{.sum_bytes = n_params_ * static_cast<int64_t>(sizeof(int64_t))};
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

 private:
  void train_cohort(const RoundContext& round, std::size_t begin, std::size_t end,
                    Findings& findings) {
    const double start_s = settings_.clock();
    std::vector<ClientTask> tasks;
    std::vector<double> coefficients;
    std::vector<int64_t> positions;
    for (const Assignment& entry : round.plan.entries().subspan(begin, end - begin)) {
      tasks.push_back({.client = entry.client, .round = round.number, .seed = settings_.seed});
      coefficients.push_back(entry.coefficient);
      positions.push_back(entry.position);
    }
    const auto outcomes = cohorts_->train(tasks);
    Cohort& cohort = cohorts_->cohort();
    const auto folded = kept_ ? kept_->keep(cohort.rows(), cohort.theta(), positions)
                              : sum_->fold(cohort.rows(), cohort.theta(), coefficients);
    const double seconds = (settings_.clock() - start_s) / static_cast<double>(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      note_training(round, begin + i, outcomes[i], folded[i], seconds,
                    UpdateSum::limit(settings_.max_participants), findings);
    }
  }

  Communicator& comm_;
  FederatedSettings settings_;
  std::unique_ptr<CohortTraining> cohorts_;
  std::unique_ptr<DeviceCommunicator> devices_;
  std::unique_ptr<DeviceSum> sum_;
  int64_t n_params_;
  std::unique_ptr<DeviceUpdates> kept_;  // null: updates are folded as they are made
  std::vector<float> step_;              // [P] the mixed update, rank 0
};

}  // namespace

EnginePtr make_device_engine(const EngineParts& parts, const FederatedSettings& settings,
                             std::unique_ptr<CohortTraining> cohorts,
                             std::unique_ptr<DeviceCommunicator> devices) {
  return std::make_shared<DeviceEngine>(parts, settings, std::move(cohorts), std::move(devices));
}

}  // namespace hanse
