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
#include "federated/host_intake.hpp"
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

// Trains a client, lets the stages change its update, and hands it to the sink. Memory: the sink's,
// and clients' states.
class HostRunner final : public ClientRunner {
 public:
  HostRunner(const RunnerParts& parts, const FederatedSettings& settings)
      : ClientRunner(parts, settings,
                     width_of(rule_state_blocks(parts.rule, parts.model.layout()))),
        intake_(parts, settings),
        evaluator_(parts.federation, parts.model) {}

  // Who trains whom may only be left open without states that lie somewhere, and with a sum that
  // ignores grouping.
  ScheduleTraits schedule() const override {
    const bool is_exact = reduction_of(settings_) == Reduction::kExact;
    return {.may_run_ahead = !has_states() && controls() == 0 && !parts_.rule.after_training(),
            .may_be_open = !has_states() && is_exact && settings_.round_seconds == 0};
  }
  HostSink& sink() override { return intake_.sink(); }

  void receive(std::span<float> model) override { parts_.comm.bcast(model, 0); }

  Evaluator& evaluator(std::span<const float> row) override { return evaluator_.at(row); }

  Evaluator& view(const RoundContext& round, int64_t client, View view) override {
    if (view != View::kReceived) return own_model(round, client, view == View::kTuned);
    if (!has_state(client)) return evaluator_.at(round.model);
    HostSink& sink = intake_.start_apart(round.model);
    parts_.update.receive(states()->existing_row(client), sink.row());
    return evaluator_.at(sink.row());
  }

  void run(const RoundContext& round, Findings& findings) override {
    intake_.start(round, findings);
    Deadline deadline(settings_.round_seconds);
    round.plan.for_mine([&](std::size_t entry) {
      if (deadline.starts(elapsed_s(round))) {
        attempt(round.failure, [&] {
          const RoundContext own = round.of(entry);
          intake_.go_on_from(own.model);
          train(own, entry, deadline);
        });
      }
    });
    attempt(round.failure, [&] { intake_.finish(); });
    run_ahead(round);
    if (deadline.factor() > 1 && !round.failure) sink().scale(deadline.factor());
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
      HostSink& sink = intake_.start_apart(own.model);
      ClientTask task = host_task(own, mine.client, {});
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

  void train(const RoundContext& round, std::size_t entry, Deadline& deadline) {
    const Assignment& mine = round.plan.entries()[entry];
    const Scope span("client", mine.client);
    const DeclaredTime turn;
    const double start_s = settings_.clock->now_s();
    const std::span<float> state = state_of(mine.client);
    ClientTask task = host_task(round, mine.client, state);
    task.next = round.plan.next_client(entry);
    double before_s = 0;
    const ClientOutcome outcome = outcome_of(task, before_s);
    if (!deadline.counts(elapsed_s(round))) {
      sink().second_row().forget_row();
      return sink().set_row(round.model);
    }
    intake_.take(round, entry, outcome, before_s, start_s, state);
  }

  double squared_step(const RoundContext& round, int64_t client) {
    intake_.start_apart(round.model);
    std::vector<float> state = state_copy(client);
    const ClientTask task = host_task(round, client, state);
    const ClientOutcome outcome = compute(task, [&] { return parts_.update.train(task); });
    return intake_.squared_step(round, client, outcome, state);
  }

  Evaluator& own_model(const RoundContext& round, int64_t client, bool tuned) {
    intake_.start_apart(round.model);
    std::vector<float> state = state_copy(client);
    const ClientTask task = host_task(round, client, state);
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

  ClientTask host_task(const RoundContext& round, int64_t client, std::span<float> state) {
    ClientTask task = task_of(round, client, state, intake_.control_change());
    task.row = sink().row();
    return task;
  }

  HostIntake intake_;
  RowEvaluator evaluator_;
  std::map<TaskKey, TrainedAhead> ahead_;
};

}  // namespace

RunnerPtr make_host_runner(const RunnerParts& parts, const FederatedSettings& settings) {
  return std::make_shared<HostRunner>(parts, settings);
}

}  // namespace hanse
