// The runner that trains one client after another in the host's memory.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "attempt.hpp"
#include "federated/client_runner.hpp"
#include "federated/divergence.hpp"
#include "federated/findings.hpp"
#include "federated/host_sink.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/base/simulated_time.hpp"
#include "hanse/base/subnormals.hpp"
#include "hanse/protocol/update_stage.hpp"

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
  } catch (const NotFinite& error) {
    throw diverged(without_hint(error), task.client, task.round);
  } catch (const std::exception& error) {
    throw TrainingError(first_line(error), task.client, task.round);
  }
}

int64_t second_row_width(const RunnerParts& parts) {
  return parts.update.control_width() + parts.stages.second_row_width();
}

// Trains a client, lets the stages change its update, and hands it to the sink. Memory: the sink's,
// and clients' states.
class HostRunner final : public ClientRunner {
 public:
  HostRunner(const RunnerParts& parts, const FederatedSettings& settings)
      : ClientRunner(parts, settings,
                     width_of(rule_state_blocks(parts.rule, parts.model.layout()))),
        sent_(parts.model),
        sink_(make_host_sink(parts, settings, second_row_width(parts), rows_)),
        evaluator_(parts.federation, parts.model) {}

  // Who trains whom may only be left open without states that lie somewhere, and with a sum that
  // ignores grouping.
  ScheduleTraits schedule() const override {
    const bool is_exact = reduction_of(settings_) == Reduction::kExact;
    return {.may_run_ahead = !has_states() && controls() == 0 && !parts_.rule.after_training(),
            .may_be_open = !has_states() && is_exact && settings_.round_seconds == 0};
  }
  HostSink& sink() override { return *sink_; }

  void receive(std::span<float> model) override { parts_.comm.bcast(model, 0); }

  Evaluator& evaluator(std::span<const float> row) override { return evaluator_.at(row); }

  Evaluator& view(const RoundContext& round, int64_t client, View view) override {
    if (view != View::kReceived) return own_model(round, client, view == View::kTuned);
    if (!has_state(client)) return evaluator_.at(round.model);
    HostSink& sink = start_from(round.model);
    parts_.update.receive(states()->existing_row(client), sink.row());
    return evaluator_.at(sink.row());
  }

  void run(const RoundContext& round, Findings& findings) override {
    HostSink& sink = *sink_;
    sink.start(round.number, round.model);
    sink.second_row().forget_row();
    const TakenNote note = [&](const TrainedClient& one, const FoldResult& folded, double seconds) {
      note_training(round, round.plan.entries()[one.entry].client, one.entry, one.outcome, folded,
                    one.seconds + seconds, sink.limit(), findings);
    };
    Deadline deadline(settings_.round_seconds);
    round.plan.for_mine([&](std::size_t entry) {
      if (deadline.starts(elapsed_s(round))) {
        attempt(round.failure, [&] {
          const RoundContext own = round.of(entry);
          sink.go_on_from(own.model, note);
          train(own, entry, deadline, note);
        });
      }
    });
    attempt(round.failure, [&] { sink.finish(note); });
    run_ahead(round);
    if (deadline.factor() > 1 && !round.failure) sink.scale(deadline.factor());
  }

  void find_squared_steps(const RoundContext& round, std::span<double> squared) override {
    for (int64_t client = 0; client < std::ssize(squared); ++client) {
      if (!round.plan.homes().keeps(client)) continue;
      double& found = squared[to_index(client)];
      found = 0;  // stands in after a failure; the round is dropped then
      attempt(round.failure, [&] { found = squared_step(round, client); });
    }
  }

 private:
  // A task that was trained before the round in which it counts.
  struct TrainedAhead {
    AlignedFloats row;
    ClientOutcome outcome;
    double seconds;
  };
  using TaskKey = std::pair<int64_t, int64_t>;  // client, ClientTask::key()

  // Trains tasks of later rounds that fall to this rank. One that fails does so again in its round.
  void run_ahead(const RoundContext& round) {
    for (std::size_t i = 0; i < round.ahead.size(); ++i) {
      const UpcomingTask& mine = round.plan.ahead()[i];
      if (mine.worker != round.plan.worker()) continue;
      const double start_s = settings_.clock->now_s();
      const RoundContext own = round.of(round.ahead[i]);
      HostSink& sink = start_from(own.model);
      ClientTask task = host_task(own, mine.client, {}, sink);
      std::exception_ptr later;
      attempt(later, [&] {
        const ClientOutcome outcome = compute(task, [&] { return parts_.update.train(task); });
        ahead_[{task.client, task.key()}] = {sink.row(), outcome,
                                             settings_.clock->now_s() - start_s};
      });
    }
  }

  // The outcome of the task, which is trained now if it was not before; its model is in task.row.
  ClientOutcome outcome_of(const ClientTask& task, double& seconds) {
    const auto found = ahead_.find({task.client, task.key()});
    if (found == ahead_.end()) return compute(task, [&] { return parts_.update.train(task); });
    const auto trained = ahead_.extract(found);
    std::ranges::copy(trained.mapped().row, task.row.begin());
    seconds += trained.mapped().seconds;
    return trained.mapped().outcome;
  }

  void train(const RoundContext& round, std::size_t entry, Deadline& deadline,
             const TakenNote& note) {
    const Assignment& mine = round.plan.entries()[entry];
    const Scope span("client", mine.client);
    const DeclaredTime turn;
    const double start_s = settings_.clock->now_s();
    HostSink& sink = *sink_;
    const std::span<float> state = state_of(mine.client);
    ClientTask task = host_task(round, mine.client, state, sink);
    task.next = round.plan.next_client(entry);
    TrainedClient one{.entry = entry,
                      .position = mine.position,
                      .client = mine.client,
                      .coefficient = mine.coefficient};
    one.outcome = outcome_of(task, one.seconds);
    if (!deadline.counts(elapsed_s(round))) {
      sink.second_row().forget_row();
      return sink.set_row(round.model);
    }
    one.is_update = transform(round, mine.client, state, sink);
    one.seconds += settings_.clock->now_s() - start_s;
    one.state = state.last(sink_state());
    one.in_range = sink.second_row().fold(mine.importance).in_range;
    check_buffers(round, mine, one.is_update, sink);
    sink.take(one, note);
  }

  // Checks the buffers where the rule has weighed the update already.
  void check_buffers(const RoundContext& round, const Assignment& mine, bool is_update,
                     HostSink& sink) {
    const ParameterLayout& layout = parts_.model.layout();
    if (layout.n_trainable() == layout.n_params() || parts_.rule.after_training()) return;
    const bool is_exact = reduction_of(settings_) == Reduction::kExact;
    hanse::check_buffers(round, mine.client, mine.coefficient, layout, sink.row(), is_update,
                         is_exact ? sink.limit() : INFINITY);
  }

  double squared_step(const RoundContext& round, int64_t client) {
    HostSink& sink = start_from(round.model);
    std::vector<float> state = state_copy(client);
    const ClientTask task = host_task(round, client, state, sink);
    const ClientOutcome outcome = compute(task, [&] { return parts_.update.train(task); });
    const bool is_update = transform(round, client, state, sink);
    const std::span<const float> trained = sink.row();
    double sum = 0;
    for (std::size_t i = 0; i < sent_.trained; ++i) {
      const double origin = is_update ? 0 : static_cast<double>(round.model[i]);
      const double moved = static_cast<double>(trained[i]) - origin;
      sum += moved * moved;
    }
    return checked_squared_step(round, client, outcome, sum);
  }

  Evaluator& own_model(const RoundContext& round, int64_t client, bool tuned) {
    HostSink& sink = start_from(round.model);
    std::vector<float> state = state_copy(client);
    const ClientTask task = host_task(round, client, state, sink);
    const bool keeps = parts_.update.keeps_own_model();
    if (parts_.federation.train(client).size() == 0) return evaluator_.at(task.row);
    compute(task, [&] {
      if (settings_.own_models && (keeps || !parts_.tuner)) {
        if (keeps && client >= parts_.federation.clients()) parts_.update.train(task);
        parts_.update.own_model(task);
      }
      if (tuned && parts_.tuner) {
        parts_.tuner->train(
            {.client = client, .round = round.number, .seed = task.seed, .row = task.row});
      }
    });
    return evaluator_.at(task.row);
  }

  // Lets the stages work on what train() left in the row. Does it hold the update itself then?
  bool transform(const RoundContext& round, int64_t client, std::span<float> state,
                 HostSink& sink) {
    if (parts_.stages.updates.empty()) return parts_.update.sends_direction();
    const std::span<float> update = sink.row();
    for (std::size_t i = 0; !parts_.update.sends_direction() && i < sent_.size; ++i) {
      update[i] -= round.model[i];
    }
    parts_.stages.apply({.client = client,
                         .round = round_key(round.number, round.repeat),
                         .seed = settings_.seed,
                         .update = update,
                         .state = state.subspan(own_state(), stage_state()),
                         .second_row = sink.second_row().row().subspan(controls())});
    return true;
  }

  // Starts a client in training that counts nothing: between runs the sink has room for it.
  HostSink& start_from(std::span<const float> model) {
    sink_->set_row(model);
    sink_->second_row().forget_row();
    return *sink_;
  }

  ClientTask host_task(const RoundContext& round, int64_t client, std::span<float> state,
                       HostSink& sink) {
    ClientTask task = task_of(round, client, state, sink.second_row().row().first(controls()));
    task.row = sink.row();
    return task;
  }

  SentRow sent_;  // the parts of a row
  SharedRows rows_;
  std::unique_ptr<HostSink> sink_;
  RowEvaluator evaluator_;
  std::map<TaskKey, TrainedAhead> ahead_;
};

}  // namespace

RunnerPtr make_host_runner(const RunnerParts& parts, const FederatedSettings& settings) {
  return std::make_shared<HostRunner>(parts, settings);
}

}  // namespace hanse
