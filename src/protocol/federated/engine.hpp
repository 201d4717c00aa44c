// What a federated trainer asks of the code that trains a round's participants.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "hanse/base/processor.hpp"
#include "hanse/client/evaluator.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/entry_step.hpp"
#include "hanse/protocol/engines.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

class Findings;
class RoundPlan;

// Which values of a model's row the ranks send each other: all of them, first those that gradients
// train, behind them the buffers.
struct SentRow {
  explicit SentRow(const Model& model)
      : trained(static_cast<std::size_t>(model.layout().n_trainable())),
        size(static_cast<std::size_t>(model.n_params())) {}
  std::size_t trained, size;
};

// Updates of a rank's clients that are added to the sum at once, which takes a row each: as many as
// one pass takes where no cache holds such rows. Not beside second rows, of `second` values.
inline std::size_t folded_at_once(int64_t n_params, int64_t second) {
  return n_params > kCachedValues && second == 0 ? UpdateSum::kTogether : 1;
}

// How participants may be spread over ranks that have such an engine.
struct ScheduleTraits {
  int64_t group = 1;          // neighbours of the draw that one rank trains together
  bool server_hosts = false;  // under server.role = auto rank 0 hosts clients, however many hosts
  bool may_be_open = false;   // the bits do not depend on who trains whom, which may be left open
};

// A round as all parts of a rank know it.
struct RoundContext {
  int64_t number;                  // from 1
  double start_s;                  // by settings.clock
  RoundPlan& plan;                 // its participants
  std::span<const float> model;    // [P] the received model
  std::span<const float> control;  // [control width] the server's control variate, or empty
  std::exception_ptr& failure;     // of this rank: attempt()
};

// Rank 0's step of a round; empty on other ranks and where there is none.
struct SumStep {
  ExchangeStep part = {};  // of the updates' entries
  // The same for each entry of the sum, where the server's step is this alone.
  std::optional<EntryStep> by_entry = {};
  EntryStates states = {};
};

struct ExchangeReport {
  ExchangeTimes times;
  int64_t sum_bytes = 0;      // of one rank's sum on the wire
  bool shares_model = false;  // all ranks have the new model
};

// What only an engine that trains one client after the other can do.
class SoloTraining {
 public:
  virtual ~SoloTraining() = default;
  // Of the model that an evaluation of the client is of, until the next call: the received one, or
  // with settings.own_models the one that the client would use for itself, which a client held out
  // of training makes of the samples it has, as if this were its first round. `tuned`: after the
  // settings' steps on the client's training samples.
  virtual Evaluator& viewed_model(const RoundContext& round, int64_t client, bool tuned) = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual ScheduleTraits schedule() const = 0;
  // States of clients, on the ranks that train them; null: they have none.
  virtual ClientStateStore* states() { return nullptr; }
  // Null: clients are not trained alone.
  virtual SoloTraining* solo() { return nullptr; }

  // Rank 0's model to all ranks and to where they train. Collective.
  virtual void receive(std::span<float> model) = 0;
  // Of the received model; and of what the client starts from in this round.
  virtual Evaluator& shared_model(std::span<const float> model) = 0;
  virtual Evaluator& received_model(int64_t client, std::span<const float> model) = 0;

  // Trains this rank's participants. Each update is folded into the rank's sum by its coefficient,
  // or kept where the rule needs inner products. What went wrong is in round.failure.
  virtual void train(const RoundContext& round, Findings& findings) = 0;

  // |theta_i - theta|^2, without buffers, of the clients' training as it would be in this round, in
  // `squared` [M] where this rank finds it out; leaves no trace. As train().
  virtual void find_squared_steps(const RoundContext& round, std::span<double> squared) = 0;

  // Of k kept updates: their Gram matrices on rank 0, collective, with the last updates of `absent`
  // clients behind those of the participants, k of both; their sum by coefficients [layers, k],
  // which returns the position of one that is out of range, else -1; and an end without either.
  virtual std::vector<double> gram(int64_t k, std::span<const int64_t> absent) = 0;
  virtual int64_t fold_kept(std::span<const double> coefficients, int64_t k) = 0;
  virtual void drop_kept() = 0;

  // The sum of the second rows that clients send beside their updates, on rank 0 until the next
  // round; empty elsewhere and where they send none. Collective.
  virtual std::span<const float> reduce_second_row() { return {}; }

  // The updates' sum to rank 0, which steps on the parts of `model` as they come, and perhaps the
  // model back; or the ranks step on their devices. Forgets the round's sums. Collective.
  virtual ExchangeReport exchange(std::span<float> model, const SumStep& step) = 0;
  // The rows of the server's optimizer that lie on devices to rank 0's memory. Collective. And
  // these have changed there.
  virtual void collect(const EntryStates& /*states*/) {}
  virtual void forget_server() {}

  // As Communicator::bytes_moved(), over all that the engine sends by.
  virtual int64_t bytes_moved() const = 0;
};

}  // namespace hanse
