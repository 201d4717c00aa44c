// What trains a rank's clients and evaluates their models: one after another, or many at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "federated/round_context.hpp"
#include "federated/update_sink.hpp"
#include "hanse/client/evaluator.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/protocol/engines.hpp"

namespace hanse {

class Findings;

// How participants may be spread over ranks that have such a runner.
struct ScheduleTraits {
  int64_t group = 1;           // neighbours of the draw that one rank trains together
  bool server_hosts = false;   // under server.role = auto rank 0 hosts clients, however many hosts
  bool may_run_ahead = false;  // clients may be trained before the round in which they count
  bool may_be_open = false;    // the bits do not depend on who trains whom, which may be left open
};

// Which model of a client is evaluated.
enum class View {
  kReceived,  // the one that it would start from in this round
  kOwn,   // with settings.own_models the one that it would use for itself, else the received one
  kTuned  // the one behind the settings' steps on its training samples
};

class ClientRunner {
 public:
  // `sink_state`: floats that its sink keeps of each client.
  ClientRunner(const RunnerParts& parts, const FederatedSettings& settings, int64_t sink_state);
  virtual ~ClientRunner() = default;
  ClientRunner(const ClientRunner&) = delete;
  ClientRunner& operator=(const ClientRunner&) = delete;

  virtual ScheduleTraits schedule() const = 0;
  // What a client's training costs.
  const RoundSteps& steps() const { return parts_.update.steps(); }
  // States of clients, on the ranks that train them; null: they have none.
  ClientStateStore* states() const { return states_.get(); }
  // Where updates go.
  virtual UpdateSink& sink() = 0;

  // Brings rank 0's model to all ranks and to where they train. Collective. Cost: a broadcast of P
  // floats.
  virtual void receive(std::span<float> model) = 0;
  // Brings the model that the ranks have stepped to where they train to this rank's memory, in
  // which rules, files and updates read it; nothing where it is there.
  virtual void bring() {}
  // An evaluator of the model in `row` [P], which must stay, or of a client's view of round.model.
  // Valid until the next call. A client held out of training makes its own model of the samples
  // that it has, as if this were its first round. Cost: nothing, or for a view that trains its
  // steps.
  virtual Evaluator& evaluator(std::span<const float> row) = 0;
  virtual Evaluator& view(const RoundContext& round, int64_t client, View view) = 0;

  // Trains the participants of round.plan that fall to this rank, each from where it starts, and
  // hands each finished update to the round's sink, which the runs since its last hand_over()
  // share. round.failure keeps what went wrong. Cost: the steps of those clients; messages only
  // where the plan leaves open who trains whom.
  virtual void run(const RoundContext& round, Findings& findings) = 0;
  // |theta_i - theta|^2, without buffers, of the clients' training as it would be in this round:
  // writes to `squared` [M] what this rank finds out, and leaves no trace. Otherwise as run().
  virtual void find_squared_steps(const RoundContext& round, std::span<double> squared) = 0;

  // collect() brings the rows of the server's optimizer that the ranks step by to rank 0's memory.
  // Collective. forget_server() says that these have changed there.
  virtual void collect(const EntryStates& /*states*/) {}
  virtual void forget_server() {}

  // Brings LocalUpdate::shown_block() of all clients to rank 0, where it is a column of
  // clients.csv. Collective. Cost: nothing, or a reduction of M numbers.
  void bring_shown();
  void add_columns(Columns& columns) const;

  // As Communicator::bytes_moved(), over all communicators of the runner and its sink.
  virtual int64_t bytes_moved() const { return parts_.comm.bytes_moved(); }

 protected:
  // A client's part in the round; `state` is all that ranks keep of it, `change` [control width]
  // gets the change of its control variate.
  ClientTask task_of(const RoundContext& round, int64_t client, std::span<float> state,
                     std::span<float> change) const;
  // A client's state, made at its first participation; empty where clients have none.
  std::span<float> state_of(int64_t client) const;
  // A copy of it; zeros before the first participation. Only on the rank that keeps it.
  std::vector<float> state_copy(int64_t client) const;
  bool has_states() const { return states_ != nullptr; }
  bool has_state(int64_t client) const { return states_ && states_->contains(client); }
  // Seconds since the round's start, for its deadline; without one nobody looks at the clock.
  double elapsed_s(const RoundContext& round) const {
    return settings_.round_seconds > 0 ? settings_.clock->now_s() - round.start_s : 0;
  }

  // A client's state: the update's own, the stages', the sink's.
  std::size_t own_state() const { return static_cast<std::size_t>(parts_.update.state_width()); }
  std::size_t stage_state() const { return stage_state_; }
  std::size_t sink_state() const { return sink_state_; }
  std::size_t controls() const { return static_cast<std::size_t>(parts_.update.control_width()); }

  const RunnerParts parts_;
  const FederatedSettings settings_;

 private:
  std::size_t stage_state_, sink_state_;
  std::unique_ptr<ClientStateStore> states_;
  std::vector<double> shown_;  // [M] on rank 0, NaN of clients without a state
};

}  // namespace hanse
