#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "attempt.hpp"
#include "federated/client_runner.hpp"
#include "federated/divergence.hpp"
#include "federated/kept_versions.hpp"
#include "federated/measure.hpp"
#include "federated/parts/parts.hpp"
#include "federated/report.hpp"
#include "federated/round_plan.hpp"
#include "federated/server.hpp"
#include "federated/weighing.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/random.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/protocol/round_part.hpp"

namespace hanse {

namespace {

// mean <- mean + (model - mean) / count: the mean of `count` models, of which this is the last.
void add_to_mean(std::span<float> mean, std::span<const float> model, int64_t count) {
  const auto share = static_cast<float>(1 / static_cast<double>(count));
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += share * (model[i] - mean[i]);
}

}  // namespace

FederatedTrainer::FederatedTrainer(Parts parts, Settings settings)
    : parts_(std::move(parts)),
      settings_(std::move(settings)),
      needs_(needs_among(parts_.aggregator.needs(), parts_.attackers)),
      account_(std::make_unique<RoundAccount>()),
      starts_(std::make_unique<TaskStarts>()) {
  const std::size_t size = SentRow(parts_.model).size;
  model_memory_ = parts_.comm.allocate_row(ElementType::kFloat, static_cast<int64_t>(size));
  theta_ = {reinterpret_cast<float*>(model_memory_.get()), size};
  if (settings_.server.average) average_.resize(theta_.size());
  if (!parts_.runner) {
    parts_.runner = make_host_runner({parts_.comm, parts_.federation, parts_.model, parts_.update,
                                      needs_, parts_.stages, parts_.tuner, parts_.acting},
                                     settings_);
  }
  plan_ = std::make_unique<RoundPlan>(parts_.comm, parts_.host, parts_.federation, *parts_.runner,
                                      settings_);
  if (parts_.comm.rank() == 0) server_ = std::make_unique<Server>(parts_, settings_, acting_);
  if (needs_.columns) {
    column_stepping_ = std::make_unique<ColumnStepping>(parts_.comm, parts_.model.layout(),
                                                        server_ ? &parts_.aggregator : nullptr,
                                                        parts_.own_columns);
  }
  if (server_ && settings_.trace) trace_ = std::make_unique<RoundTrace>();
  made_ =
      make_parts({parts_, settings_, needs_, server_.get(), column_stepping_.get(), trace_.get()});
  for (const auto& part : made_) acting_.push_back(part.get());
  acting_.insert(acting_.end(), parts_.acting.begin(), parts_.acting.end());
  for (RoundPart* part : acting_) part->joins(plan_->worker(), plan_->workers());
  weighing_ = std::make_unique<Weighing>(
      Weighing::Parts{parts_.comm, needs_, parts_.model.layout(), *plan_, runner(), server_.get(),
                      parts_.attackers, column_stepping_.get(), acting_});
  if (settings_.timed) versions_ = std::make_unique<KeptVersions>(parts_.host, theta_.size());
  columns_.add_to_rounds([this] { return account_->numbers(); });
  runner().add_columns(columns_);
  if (server_) server_->add_columns(columns_);
  for (const RoundPart* part : acting_) part->add_columns(columns_);
  if (parts_.update.control_returns()) control_.resize(to_index(parts_.update.control_width()));
}

FederatedTrainer::~FederatedTrainer() = default;
void FederatedTrainer::initialize_model() {
  RandomStream stream(settings_.model_seed.value_or(settings_.seed), Purpose::kInitialize);
  parts_.model.initialize(theta_, stream);
}

RoundRecord FederatedTrainer::round(bool stop_requested) {
  *account_ = RoundAccount(*settings_.clock, parts_.comm.seconds(), runner().bytes_moved());
  plan_->homes().learn();
  *starts_ = {};
  if (!draw()) {
    const double late_s = server_ ? server_->participation().turnout().late_s : 0;
    return {.round = completed_ + 1, .virtual_seconds = late_s, .happens = false};
  }
  plan_->homes().move(plan_->entries(), true, failure_);
  if (client_states()) client_states()->renew_mark();
  share_model();
  if (versions_) *starts_ = versions_->starts(*plan_, completed_, theta_);
  const RoundContext received = context();
  for (RoundPart* part : acting_) part->shared({received, client_states(), account_->losses_s});
  if (needs_.losses) {
    const Scope phase(Phase::kLosses, account_->losses_s, parts_.comm.seconds());
    weighing_->measured(participants_losses(parts_, settings_, context(), *account_), context());
  }

  Findings findings(plan_->size(), settings_.squares, needs_.rejects);
  train(findings);
  if (needs_.after_training() && !plan_->empty()) {
    const Scope phase(Phase::kProducts, account_->products_s, parts_.comm.seconds());
    weighing_->trained(findings, context());
  }
  RoundRecord record = report(findings, stop_requested);

  AlignedFloats before;
  if (server_ && needs_.trials > 0) before.assign(theta_.begin(), theta_.end());
  step(findings, record);
  if (needs_.trials > 0) backtrack(before, record.failed);
  record.bytes_sent = account_->bytes_sent(runner().bytes_moved());
  record.more = columns_.of_round(++completed_);
  if (server_) add_to_mean(average_, theta_, completed_);
  record.seconds = account_->seconds();
  return record;
}

RoundContext FederatedTrainer::context() {
  return {.number = completed_ + 1,
          .start_s = account_->start_s(),
          .plan = *plan_,
          .model = theta_,
          .control = control_,
          .failure = failure_,
          .starts = starts_->entries,
          .ahead = starts_->ahead};
}

// Draws who takes part and tells all ranks; before that, where the sampler must know what every
// client would report, or losses of some, they find it out. False: the round does not happen.
bool FederatedTrainer::draw() {
  const Scope phase(Phase::kDraw, account_->draw_s, parts_.comm.seconds());
  plan_->clear();
  const auto tell = [&](auto decide) {
    auto message = PlanMessage::kParticipants;
    if (server_) attempt(failure_, [&] { message = decide(); });
    return plan_->share(message);
  };
  PlanMessage message =
      tell([&] { return server_->needs_all_clients() ? PlanMessage::kMeasureAll : take_draw(); });
  if (message == PlanMessage::kMeasureAll) {
    share_model();
    auto squared = all_squared_steps(parts_, context());
    message = tell([&] {
      server_->observe_all(std::move(squared), completed_ + 1);
      return take_draw();
    });
  }
  if (message != PlanMessage::kCandidates) return message == PlanMessage::kParticipants;
  plan_->homes().move(plan_->entries(), false, failure_);
  share_model();
  std::vector<double> losses;
  {
    const Scope measuring(Phase::kLosses, account_->losses_s, parts_.comm.seconds());
    losses = participants_losses(parts_, settings_, context(), *account_);
  }
  plan_->clear();
  const auto drawn = tell([&] {
    server_->take_candidates(losses);
    return take_draw();
  });
  return drawn == PlanMessage::kParticipants;
}

// Rank 0 takes the draw, or before it the candidates whose losses it needs.
PlanMessage FederatedTrainer::take_draw() {
  const auto candidates = server_->candidates(completed_ + 1);
  if (!candidates.empty()) {
    plan_->assign({.draw = {.clients = candidates}}, std::vector<double>(candidates.size()),
                  completed_ + 1);
    return PlanMessage::kCandidates;
  }
  const RoundTurnout& turnout = server_->draw(completed_ + 1);
  if (turnout.late_s > 0) return PlanMessage::kNoRound;
  plan_->assign(turnout, server_->importances(), completed_ + 1);
  weighing_->drawn(completed_ + 1);
  return PlanMessage::kParticipants;
}

void FederatedTrainer::share_model() {
  const Scope phase(Phase::kBroadcast, account_->broadcast_s);
  const int64_t before = runner().bytes_moved();
  if (!model_is_shared_) runner().receive(theta_);
  model_is_shared_ = true;
  if (!control_.empty()) parts_.comm.bcast(std::span(control_), 0);
  account_->broadcast_bytes += runner().bytes_moved() - before;
}

// Trains; then every rank waits for the last.
void FederatedTrainer::train(Findings& findings) {
  {
    const bool trains = plan_->worker() >= 0;
    const Scope phase(trains ? Phase::kTraining : Phase::kWait,
                      trains ? account_->training_s : account_->wait_s);
    runner().run(context(), findings);
  }
  const Scope phase(Phase::kWait, account_->wait_s);
  parts_.comm.barrier();
}

// Rank 0's report of what all ranks found.
RoundRecord FederatedTrainer::report(Findings& findings, bool stop_requested) {
  failure_ = explained(failure_, parts_.federation, parts_.model, context(), runner());
  if (parts_.attackers) failure_ = cleared(failure_, *parts_.attackers, completed_ + 1);
  account_->update_bytes = update_bytes(parts_, context());
  findings.rank(Findings::kTrainSeconds) = account_->training_s;
  findings.rank(Findings::kWaitSeconds) = account_->wait_s;
  findings.rank(Findings::kCommSeconds) = account_->comm_s(parts_.comm.seconds());
  findings.rank(Findings::kStop) = stop_requested;
  findings.rank(Findings::kFailed) = failure_ != nullptr;
  {
    const Scope phase(Phase::kReduce);
    account_->set_others_bytes(
        bring(parts_.comm, findings.table(), account_->own_bytes(runner().bytes_moved())));
  }
  return {.round = completed_ + 1,
          .participants = static_cast<int64_t>(plan_->size()),
          .train_s = findings.rank(Findings::kTrainSeconds),
          .comm_s = std::max(0.0, findings.rank(Findings::kCommSeconds)),
          .wait_s = findings.rank(Findings::kWaitSeconds),
          .mixed_loss = server_ ? server_->mixed_loss() : std::nan(""),
          .virtual_seconds = parts_.turnout ? parts_.turnout->seconds() : 0,
          .stop_requested = findings.rank(Findings::kStop) > 0,
          .failed = findings.rank(Findings::kFailed) > 0};
}

// Brings the updates' sum to rank 0, where the server steps unless the round has failed or nobody
// was there.
void FederatedTrainer::step(const Findings& findings, RoundRecord& record) {
  std::span<const float> second_row;
  {
    const Scope phase(Phase::kReduce, account_->reduce_s);
    const int64_t before = runner().bytes_moved();
    second_row = runner().sink().second_row().reduce(parts_.comm);
    account_->reduce_bytes += runner().bytes_moved() - before;
  }
  SumStep sum_step;
  if (server_ && !record.failed) sum_step = prepare_step(findings, second_row, record);
  const Scope phase(Phase::kReduce);
  const ExchangeReport done = runner().sink().hand_over(theta_, sum_step);
  record.failed = record.failed || failure_;
  model_is_shared_ = done.shares_model;
  if (needs_.trials > 0 || !average_.empty() || versions_) runner().bring();
  plan_->observe(done);
  account_->reduce_s += done.times.reduce_s;
  account_->step_s += done.times.step_s;
  account_->broadcast_s += done.times.broadcast_s;
  const int64_t others = parts_.comm.size() - 1;
  account_->reduce_bytes += done.sum_bytes * others;
  if (done.shares_model) account_->broadcast_bytes += others * std::ssize(std::as_bytes(theta_));
  record.comm_s += account_->reduce_s + done.times.broadcast_s;
}

// Rank 0: the rules learn from the round first; no step where that fails or nobody took part.
SumStep FederatedTrainer::prepare_step(const Findings& findings, std::span<const float> second_row,
                                       RoundRecord& record) {
  const Scope phase(Phase::kStep, account_->step_s);
  const bool has_sum = !plan_->empty() || std::ranges::any_of(acting_, &RoundPart::steps_alone);
  plan_->observe(findings);
  attempt(failure_, [&] {
    record.loss = server_->observe(*plan_, findings, starts_->of_first(theta_));
    server_->note_step(weighing_->has_step());
    if (has_sum) server_->prepare_step(control_, second_row);
  });
  if (failure_ || !has_sum || !weighing_->has_step()) return {};
  SumStep step = server_->by_entry();
  step.part = [this](int64_t begin, std::span<float> update) {
    const Scope part(Phase::kStep);
    const auto theta = theta_.subspan(static_cast<std::size_t>(begin), update.size());
    attempt(failure_, [&] {
      for (RoundPart* acting : acting_) acting->mixed(begin, update);
      server_->step(begin, theta, update);
    });
  };
  return step;
}

// Halves the step until the rule accepts the participants' losses behind it; when it never does,
// the model stays as it was. `before` is rank 0's model before the step.
void FederatedTrainer::backtrack(std::span<const float> before, bool failed) {
  const auto decided = [&](bool by_rank_0) {
    int64_t answer = by_rank_0;
    parts_.comm.bcast(std::span(&answer, 1), 0);
    return answer != 0;
  };
  if (decided(failed || plan_->empty())) return;
  for (int64_t trial = 0; trial <= needs_.trials; ++trial) {
    share_model();
    const Scope phase(Phase::kLosses, account_->losses_s, parts_.comm.seconds());
    const auto after = participants_losses(parts_, settings_, context(), *account_);
    if (decided(server_ && server_->accepts(after))) return;
    const float share = trial < needs_.trials ? 0.5F : 0.0F;
    for (std::size_t i = 0; i < before.size(); ++i) {
      theta_[i] = before[i] + share * (theta_[i] - before[i]);
    }
    model_is_shared_ = false;
    if (server_) server_->shorten(static_cast<double>(share));
  }
  if (std::exchange(has_stood_, true)) return;
  warning(fmt::format(
      "round {}: some participant's loss rises with each of {} steps, so the model stays "
      "as it was (aggregator.backtrack); where this happens again it is not told",
      completed_ + 1, needs_.trials + 1));
}

std::vector<double> FederatedTrainer::decision() const { return parts_.aggregator.decision(); }
std::vector<TableLines> FederatedTrainer::take_lines() {
  return with_classes(server_ ? server_->take_lines() : std::vector<TableLines>());
}

const RoundTrace& FederatedTrainer::trace() const { return *trace_; }
std::string FederatedTrainer::remark() const { return server_ ? server_->idle().remark() : ""; }
ClientStateStore* FederatedTrainer::client_states() { return parts_.runner->states(); }
bool FederatedTrainer::keeps_state_of(int64_t client) const { return plan_->homes().keeps(client); }

std::string FederatedTrainer::end() const {
  for (const RoundPart* part : acting_) {
    if (std::string why = part->end(); !why.empty()) return why;
  }
  return "";
}

void FederatedTrainer::collect() {
  runner().bring();
  for (RoundPart* part : acting_) part->collect();
  runner().collect(server_ ? parts_.optimizer->entry_states() : EntryStates());
}

// Rank 0's state.
void FederatedTrainer::visit(StateFields& fields) {
  fields.fixed("model", theta_);
  fields.one("rounds", completed_);
  if (!control_.empty()) fields.fixed("control", control_);
  if (!average_.empty()) fields.fixed("average", average_);
  fields.same(*server_);
  if (versions_) fields.part("versions", *versions_);
  for (RoundPart* part : acting_) fields.part(part->name(), *part);
}

void FederatedTrainer::resume(const State& state) {
  model_is_shared_ = false;
  runner().forget_server();
  agree_on(parts_.comm, [&] {
    if (server_) load(state);
  });
  parts_.comm.bcast(std::span(&completed_, 1), 0);
  if (versions_) versions_->share(parts_.comm);
  for (RoundPart* part : acting_) part->share();
}

}  // namespace hanse
