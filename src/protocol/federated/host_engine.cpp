// The engine that trains one client after another in the host's memory.
#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attempt.hpp"
#include "federated/engine.hpp"
#include "federated/kept_updates.hpp"
#include "federated/report.hpp"
#include "federated/round_plan.hpp"
#include "federated/second_row.hpp"
#include "federated/trained_rows.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/simulated_time.hpp"
#include "hanse/base/span.hpp"
#include "hanse/base/subnormals.hpp"
#include "hanse/protocol/update_stage.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

namespace {

// A client's work with its model; an error says whose training failed, and when.
template <class Work>
auto compute(const ClientTask& task, Work work) {
  const FlushSubnormals flush;
  try {
    return work();
  } catch (const TrainingError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw TrainingError(first_line(error), task.client, task.round);
  }
}

ClientOutcome train_client(LocalUpdate& update, const ClientTask& task) {
  return compute(task, [&] { return update.train(task); });
}

// Plain steps of the job's options, for evaluations; null: there are none.
std::unique_ptr<LocalUpdate> make_tuner(const EngineParts& parts,
                                        const FederatedSettings& settings) {
  if (settings.tune_steps == 0) return nullptr;
  ClientOptions options = settings.client;
  options.kind = "sgd";
  options.steps = settings.tune_steps;
  options.stragglers = 0;
  options.optimizer.state = "fresh";
  options.propfair = {};
  options.pooled = options.alone = false;
  return make_sgd(options, parts.federation, parts.model);
}

// Rules that keep updates, stages and directions take one at a time.
std::size_t updates_at_once(const EngineParts& parts) {
  const bool alone = parts.stage || parts.update.sends_direction() || parts.rule.after_training();
  return alone ? 1 : folded_at_once(parts.model.n_params(), parts.update.control_width());
}

// Of a client: train, then whatever is done to its update, then keep or fold it (hand_in).
// Memory: three rows and a sum a rank, one row more where two updates are folded at once, one
// update each where they are kept, and clients' states.
class HostEngine final : public Engine, private SoloTraining {
 public:
  HostEngine(const EngineParts& parts, const FederatedSettings& settings)
      : comm_(parts.comm),
        federation_(parts.federation),
        update_(parts.update),
        tuner_(make_tuner(parts, settings)),
        stage_(parts.stage),
        settings_(settings),
        sent_(parts.model),
        overlaps_(step_overlaps(parts.rule, parts.update, settings.server)),
        rows_(sent_, updates_at_once(parts)),
        sum_(parts.model.n_params() * (parts.rule.sign_share ? 2 : 1),
             parts.rule.last_updates ? parts.federation.clients() : settings.max_participants,
             reduction(), comm_),
        second_row_(update_.control_width() + (stage_ ? stage_->second_row_width() : 0),
                    settings.max_participants, reduction()),
        evaluator_(parts.federation, parts.model) {
    divides_ = parts.rule.sign_share.has_value();
    if (parts.rule.after_training()) {
      kept_ = std::make_unique<KeptUpdates>(comm_, parts.model.layout(), parts.rule);
    }
    if (state_width() == 0) return;
    states_ = std::make_unique<ClientStateStore>(state_width(), settings_.client.state_memory << 20,
                                                 settings_.state_folder);
  }

  // Who trains whom may only be left open without states that lie somewhere, and with a sum that
  // ignores grouping.
  ScheduleTraits schedule() const override {
    return {.may_be_open =
                !states_ && reduction() == Reduction::kExact && settings_.round_seconds == 0};
  }
  ClientStateStore* states() override { return states_.get(); }
  SoloTraining* solo() override { return this; }

  void receive(std::span<float> model) override { comm_.bcast(model, 0); }
  Evaluator& shared_model(std::span<const float> model) override { return evaluator_.at(model); }

  Evaluator& received_model(int64_t client, std::span<const float> model) override {
    if (!states_ || !states_->contains(client)) return evaluator_.at(model);
    rows_.start_again(model);
    update_.receive(states_->existing_row(client), rows_.row());
    return evaluator_.at(rows_.row());
  }

  void train(const RoundContext& round, Findings& findings) override {
    rows_.start(round.model);
    second_row_.forget_row();
    Deadline deadline(settings_.round_seconds);
    round.plan.for_mine([&](std::size_t entry) {
      if (deadline.starts(settings_.clock() - round.start_s)) {
        attempt(round.failure, [&] { train_one(round, entry, deadline, findings); });
      }
    });
    attempt(round.failure, [&] { fold(round, /*is_update=*/false, findings); });
    if (deadline.factor() > 1 && !round.failure) sum_.scale(deadline.factor());
  }

  std::vector<double> gram(int64_t k, std::span<const int64_t> absent) override {
    const int64_t first = k - std::ssize(absent);
    for (std::size_t i = 0; i < absent.size(); ++i) {
      if (!states_->contains(absent[i])) continue;  // another rank has it
      const auto state = states_->existing_row(absent[i]);
      kept_->keep_absent(first + static_cast<int64_t>(i), state.last(rule_state()));
    }
    return kept_->gram(k);
  }
  int64_t fold_kept(std::span<const double> coefficients, int64_t k) override {
    return kept_->fold(coefficients, k, sum_);
  }
  void drop_kept() override { kept_->clear(); }

  std::span<const float> reduce_second_row() override { return second_row_.reduce(comm_); }

  ExchangeReport exchange(std::span<float> model, const SumStep& sum_step) override {
    ExchangeReport done{.sum_bytes = sum_.bytes(), .shares_model = overlaps_};
    if (overlaps_) {
      const ExchangeStep nothing = [](int64_t, std::span<float>) {};
      done.times = sum_.exchange(comm_, model, sum_step.part ? sum_step.part : nothing);
      return done;
    }
    {
      const PhaseTimer timer(done.times.reduce_s);
      sum_.reduce(comm_, 0);
    }
    const PhaseTimer timer(done.times.step_s);
    if (!sum_step.part) {
      sum_.clear();
      return done;
    }
    step_.resize(sent_.size * (divides_ ? 2 : 1));
    const auto update = std::span(step_).first(sent_.size);
    sum_.take(update);
    if (divides_) {
      const auto weights = std::span(step_).subspan(sent_.size);
      sum_.take(weights, static_cast<int64_t>(sent_.size));
      KeptUpdates::divide(update, weights);
    }
    sum_step.part(0, update);
    return done;
  }

  int64_t bytes_moved() const override { return comm_.bytes_moved(); }

  void find_squared_steps(const RoundContext& round, std::span<double> squared) override {
    for (int64_t client = 0; client < std::ssize(squared); ++client) {
      if (!round.plan.homes().keeps(client)) continue;
      double& found = squared[to_index(client)];
      found = 0;  // stands in after a failure; the round is dropped then
      attempt(round.failure, [&] { found = squared_step(round, client); });
    }
  }

 private:
  double squared_step(const RoundContext& round, int64_t client) {
    start_from(round.model);
    std::vector<float> state = state_copy(client);
    const ClientOutcome outcome = train_client(update_, task_of(round, client, state));
    const bool is_update = transform(round, client, state);
    double sum = 0;
    for (std::size_t i = 0; i < sent_.trained; ++i) {
      const double origin = is_update ? 0 : static_cast<double>(round.model[i]);
      const double moved = static_cast<double>(rows_.row()[i]) - origin;
      sum += moved * moved;
    }
    return checked_squared_step(round, client, outcome, sum);
  }

  Evaluator& viewed_model(const RoundContext& round, int64_t client, bool tuned) override {
    start_from(round.model);
    std::vector<float> state = state_copy(client);
    const ClientTask task = task_of(round, client, state);
    const bool keeps = update_.keeps_own_model();
    if (federation_.train(client).size() == 0) return evaluator_.at(rows_.row());
    compute(task, [&] {
      if (settings_.own_models && (keeps || !tuner_)) {
        if (keeps && client >= federation_.clients()) update_.train(task);
        update_.own_model(task);
      }
      if (tuned && tuner_) {
        tuner_->train(
            {.client = client, .round = round.number, .seed = task.seed, .row = rows_.row()});
      }
    });
    return evaluator_.at(rows_.row());
  }

  void train_one(const RoundContext& round, std::size_t entry, Deadline& deadline,
                 Findings& findings) {
    const Assignment& mine = round.plan.entries()[entry];
    const InSpan span("client", mine.client);
    const DeclaredTime turn;
    const double start_s = settings_.clock();
    const auto state = states_ ? states_->row(mine.client) : std::span<float>();
    ClientTask task = task_of(round, mine.client, state);
    task.next = round.plan.next_client(entry);
    ClientOutcome outcome = train_client(update_, task);
    if (!deadline.counts(settings_.clock() - round.start_s)) return start_from(round.model);
    const bool is_update = transform(round, mine.client, state);
    hand_in(round,
            {.entry = entry,
             .coefficient = mine.coefficient,
             .outcome = outcome,
             .seconds = settings_.clock() - start_s},
            is_update, state, findings);
  }

  // The stage's work on what train() left in the row. Does it hold the update itself then?
  bool transform(const RoundContext& round, int64_t client, std::span<float> state) {
    if (!stage_) return update_.sends_direction();
    for (std::size_t i = 0; !update_.sends_direction() && i < sent_.size; ++i) {
      rows_.row()[i] -= round.model[i];
    }
    stage_->apply({.client = client,
                   .round = round.number,
                   .seed = settings_.seed,
                   .update = rows_.row(),
                   .state = state.subspan(own_state(), stage_state()),
                   .second_row = second_row_.row().subspan(controls())});
    return true;
  }

  // The update in row(), and the second row; the next client starts from the model.
  void hand_in(const RoundContext& round, TrainedClient one, bool is_update, std::span<float> state,
               Findings& findings) {
    const Assignment& mine = round.plan.entries()[one.entry];
    one.in_range = second_row_.fold(mine.importance).in_range;
    if (kept_) {
      FoldResult kept =
          kept_->keep(mine.position, state.last(rule_state()), rows_.row(), round.model, is_update);
      kept.in_range = kept.in_range && one.in_range;
      if (divides_) one.outcome.rate = *kept_->distance();
      return note_training(round, one.entry, one.outcome, kept, one.seconds, sum_.limit(),
                           findings);
    }
    rows_.wait(one, round.model);
    if (rows_.full()) fold(round, is_update, findings);
  }

  void fold(const RoundContext& round, bool is_update, Findings& findings) {
    const DeclaredTime part_of_training;
    rows_.fold(sum_, round.model, is_update, settings_.clock,
               [&](const TrainedClient& one, const FoldResult& folded, double share_s) {
                 note_training(round, one.entry, one.outcome, folded, one.seconds + share_s,
                               sum_.limit(), findings);
               });
  }

  Reduction reduction() const {
    return settings_.comm.reduction == "fast" ? Reduction::kFast : Reduction::kExact;
  }

  void start_from(std::span<const float> model) {
    rows_.start_again(model);
    second_row_.forget_row();
  }

  ClientTask task_of(const RoundContext& round, int64_t client, std::span<float> state) {
    return {.client = client,
            .round = round.number,
            .seed = settings_.seed,
            .row = rows_.row(),
            .state = state.first(own_state()),
            .control = round.control,
            .control_change = second_row_.row().first(controls())};
  }

  // The client's own state stands before the stage's, and the rule's behind both; its control
  // variate stands before the stage's row.
  std::size_t own_state() const { return to_index(update_.state_width()); }
  std::size_t stage_state() const {
    return stage_ ? to_index(width_of(stage_->state_blocks())) : 0;
  }
  std::size_t rule_state() const { return kept_ ? to_index(width_of(kept_->state_blocks())) : 0; }
  std::size_t controls() const { return to_index(update_.control_width()); }
  int64_t state_width() const {
    return static_cast<int64_t>(own_state() + stage_state() + rule_state());
  }

  // Zeros before the client's first participation. Only on the rank that keeps it.
  std::vector<float> state_copy(int64_t client) const {
    if (!states_ || !states_->contains(client)) {
      return std::vector<float>(to_index(state_width()));
    }
    const auto kept = states_->existing_row(client);
    return {kept.begin(), kept.end()};
  }

  Communicator& comm_;
  const Federation& federation_;
  LocalUpdate& update_;
  std::unique_ptr<LocalUpdate> tuner_;
  UpdateStage* stage_;
  FederatedSettings settings_;
  SentRow sent_;          // the parts of a row
  bool overlaps_;         // the model goes back part by part as its sum comes
  bool divides_ = false;  // the sum has weights behind it, by which it is divided
  TrainedRows rows_;
  std::vector<float> step_;  // [P] the mixed update of rank 0, and [P] weights that divide it
  UpdateSum sum_;
  SecondRow second_row_;
  std::unique_ptr<KeptUpdates> kept_;  // null: updates are folded as they are made
  std::unique_ptr<ClientStateStore> states_;
  RowEvaluator evaluator_;
};

}  // namespace

EnginePtr make_host_engine(const EngineParts& parts, const FederatedSettings& settings) {
  return std::make_shared<HostEngine>(parts, settings);
}

}  // namespace hanse
