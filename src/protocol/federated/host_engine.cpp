#include "federated/host_engine.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attempt.hpp"
#include "federated/note_training.hpp"
#include "federated/report.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/error.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

namespace {

Reduction reduction_of(const CommOptions& comm) {
  return comm.reduction == "fast" ? Reduction::kFast : Reduction::kExact;
}

}  // namespace

HostEngine::HostEngine(const EngineParts& parts, const FederatedSettings& settings)
    : comm_(parts.comm),
      federation_(parts.federation),
      update_(parts.update),
      settings_(settings),
      n_trainable_(static_cast<std::size_t>(parts.model.layout().n_trainable())),
      overlaps_(step_overlaps(parts.rule, parts.update)),
      sum_(parts.model.n_params(), settings.max_participants, reduction_of(settings.comm)),
      second_row_(parts.update.control_width(), settings.max_participants,
                  reduction_of(settings.comm)),
      evaluator_(parts.federation, parts.model) {
  const auto n = static_cast<std::size_t>(parts.model.n_params());
  row_.resize(n);
  if (comm_.rank() == 0) step_.resize(n);
  if (parts.rule.gram) {
    kept_ =
        std::make_unique<KeptUpdates>(comm_, row_parts(parts.model.layout(), parts.rule.layers));
  }
  if (update_.state_width() == 0) return;
  states_ = std::make_unique<ClientStateStore>(
      update_.state_width(), settings_.client.state_memory << 20, settings_.state_folder);
}

// Who trains whom may only be left open without states that lie somewhere, and with a sum that
// ignores grouping.
ScheduleTraits HostEngine::schedule() const {
  return {.may_be_open =
              !states_ && settings_.comm.reduction == "exact" && settings_.round_seconds == 0};
}

Evaluator& HostEngine::received_model(int64_t client, std::span<const float> model) {
  if (!states_ || !states_->contains(client)) return evaluator_.at(model);
  std::copy(model.begin(), model.end(), row_.begin());
  update_.receive(states_->existing_row(client), row_);
  return evaluator_.at(row_);
}

void HostEngine::start_from(std::span<const float> model) {
  std::copy(model.begin(), model.end(), row_.begin());
  second_row_.forget_row();
}

ClientTask HostEngine::task_of(const RoundContext& round, int64_t client, std::span<float> state) {
  return {.client = client,
          .round = round.number,
          .seed = settings_.seed,
          .row = row_,
          .state = state,
          .control = round.control,
          .control_change = second_row_.row()};
}

void HostEngine::train(const RoundContext& round, Findings& findings) {
  start_from(round.model);
  deadline_ = Deadline(settings_.round_seconds);
  round.plan.for_mine([&](std::size_t entry) {
    if (deadline_.starts(settings_.clock() - round.start_s)) {
      attempt(round.failure, [&] { train_one(round, entry, findings); });
    }
  });
  if (deadline_.factor() > 1 && !round.failure) sum_.scale(deadline_.factor());
}

void HostEngine::train_one(const RoundContext& round, std::size_t entry, Findings& findings) {
  const int64_t client = round.plan.entries()[entry].client;
  const double start_s = settings_.clock();
  const auto state = states_ ? states_->row(client) : std::span<float>();
  const ClientOutcome outcome = update_.train(task_of(round, client, state));
  if (!deadline_.counts(settings_.clock() - round.start_s)) return start_from(round.model);
  const FoldResult folded = hand_in(round, entry);
  note_training(round, entry, outcome, folded, settings_.clock() - start_s, sum_.limit(), findings);
}

// The update that train() left in row_, and the second row; the next client starts from the model.
FoldResult HostEngine::hand_in(const RoundContext& round, std::size_t entry) {
  const Assignment& mine = round.plan.entries()[entry];
  FoldResult folded;
  if (kept_) {
    folded.squared_norm = kept_->keep(mine.position, row_, round.model, update_.tells_update());
    folded.in_range = std::isfinite(folded.squared_norm);
  } else {
    folded = fold(round.model, mine.coefficient);
  }
  const FoldResult second = second_row_.fold(mine.importance);
  folded.in_range = folded.in_range && second.in_range;
  return folded;
}

// Buffers are in the sum, but not in the norm that rules learn from.
FoldResult HostEngine::fold(std::span<const float> model, double coefficient) {
  if (update_.tells_update()) {  // of models without buffers
    const FoldResult folded = sum_.fold(row_, {}, coefficient);
    std::copy(model.begin(), model.end(), row_.begin());
    return folded;
  }
  const auto row = std::span(row_);
  const FoldResult buffers = sum_.fold(row.subspan(n_trainable_), model.subspan(n_trainable_),
                                       coefficient, static_cast<int64_t>(n_trainable_));
  FoldResult folded = sum_.fold(row.first(n_trainable_), model.first(n_trainable_), coefficient);
  folded.in_range = folded.in_range && buffers.in_range;
  return folded;
}

ExchangeReport HostEngine::exchange(std::span<float> model, const PartStep& step) {
  const auto step_part = [&](int64_t begin, int64_t end) {
    if (!step) return;
    const auto update = std::span(step_).subspan(static_cast<std::size_t>(begin),
                                                 static_cast<std::size_t>(end - begin));
    sum_.take(update, begin);
    step(begin, update);
  };
  ExchangeReport done{.sum_bytes = sum_.bytes(), .shares_model = overlaps_};
  if (overlaps_) {
    done.times = sum_.exchange(comm_, model, step_part);
  } else {
    {
      const PhaseTimer timer(done.times.reduce_s);
      sum_.reduce(comm_, 0);
    }
    const PhaseTimer timer(done.times.step_s);
    step_part(0, static_cast<int64_t>(model.size()));
  }
  if (!step) {
    sum_.clear();
    second_row_.clear();
  }
  return done;
}

// Zeros before the client's first participation. Only on the rank that keeps it.
std::vector<float> HostEngine::state_copy(int64_t client) const {
  std::vector<float> state(static_cast<std::size_t>(update_.state_width()));
  if (states_ && states_->contains(client)) {
    const auto kept = states_->existing_row(client);
    std::copy(kept.begin(), kept.end(), state.begin());
  }
  return state;
}

double HostEngine::squared_step(const RoundContext& round, int64_t client) {
  start_from(round.model);
  std::vector<float> state = state_copy(client);
  const ClientOutcome outcome = update_.train(task_of(round, client, state));
  double sum = 0;
  for (std::size_t i = 0; i < n_trainable_; ++i) {
    const double origin = update_.tells_update() ? 0 : static_cast<double>(round.model[i]);
    const double moved = static_cast<double>(row_[i]) - origin;
    sum += moved * moved;
  }
  if (!std::isfinite(sum) || !std::isfinite(outcome.loss)) {
    throw TrainingError(
        fmt::format("an update of norm {} and loss {}", std::sqrt(sum), outcome.loss), client,
        round.number, "a smaller client.lr or client.clip may help");
  }
  return sum;
}

Evaluator& HostEngine::own_model(const RoundContext& round, int64_t client) {
  start_from(round.model);
  std::vector<float> state = state_copy(client);
  const ClientTask task = task_of(round, client, state);
  const bool held_out = client >= federation_.clients();
  if (!held_out || federation_.train(client).size() > 0) {
    if (held_out && update_.keeps_own_model()) update_.train(task);
    update_.own_model(task);
  }
  return evaluator_.at(row_);
}

EnginePtr make_host_engine(const EngineParts& parts, const FederatedSettings& settings) {
  return EnginePtr(new HostEngine(parts, settings));
}

}  // namespace hanse
