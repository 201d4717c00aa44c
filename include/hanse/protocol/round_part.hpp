// What may act in every round of a federated run beside its rule: noise on the sum, attackers, an
// update's staleness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/base/row_part.hpp"
#include "hanse/base/state.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/sampling/sampler.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

class ClientStateStore;
class EvaluationTable;
class Findings;
class RoundPlan;
struct KnownRound;
struct RoundContext;
struct RoundTurnout;
struct WeighedRound;

// A round whose model all ranks have, and whose participants' states are where they train.
struct SharedRound {
  const RoundContext& context;
  ClientStateStore* states;  // null: clients have none
  double& losses_s;          // this rank's seconds of measuring losses, without communication
};

// A participant's update, on its way into the sum.
struct SummedUpdate {
  int64_t client;
  int64_t place;                  // in the draw
  double coefficient;             // the rule's, where it weighs before the training
  std::span<const float> update;  // [P]
};

// A part of an update, with a coefficient of its own.
struct WeighedPart {
  RowPart part;
  double coefficient;
};

// What a participant of this rank sends, before the sink has it.
struct SentUpdate {
  int64_t place;                  // in the draw
  double coefficient;             // the rule's, where it weighs before the training
  std::span<const float> row;     // [P] the model behind its training, or
  bool is_update;                 // what that has added to
  std::span<const float> origin;  // [P] the model that it received
};

// What the updates of a round count.
struct RoundWeights {
  int64_t round;
  std::span<const int64_t> clients;  // [K] the draw's
  const RoundTurnout& turnout;
  std::size_t rows;                // K, and those of absent clients behind them
  std::span<double> coefficients;  // [L, rows] of L layers; none: the step is by columns
  bool any = true;                 // is a weight left?
};

// A round that ranks have trained.
struct TrainedRound {
  int64_t round;
  const RoundPlan& plan;
  const Findings& findings;
  const RoundTurnout& turnout;
  std::span<const float> received;  // [P] the model that the plan's first participant received
  const Feedback& feedback;         // to the sampler, which has not got it yet
  std::span<const double> squared_norms;  // [K] of the updates, in the draw's order
};

// The moments of a round, in their order. All are empty but what a part overrides. An object a rank
// where all ranks go through a moment; rank 0's alone elsewhere. Of several parts the first acts
// first, but for reads().
class RoundPart : public Stateful {
 public:
  // Before the first round: which of the ranks that train clients this one is; -1: it trains none.
  virtual void joins(int64_t /*worker*/, int64_t /*workers*/) {}

  // Rank 0: the participants are drawn.
  virtual void drawn(int64_t /*round*/) {}

  // All ranks have the model, and nobody trains yet or measures losses of it. Collective.
  virtual void shared(const SharedRound& /*round*/) {}

  // The sum, on hosts. It is opened, closed and read once a round; between the first two this
  // rank's updates are taken.
  //
  // This rank's sum is still zero, and its first update comes next. `round` counts from 1.
  virtual void opens(int64_t /*round*/, UpdateSum& /*sum*/) {}
  // An update of this rank, on its way to the sink.
  virtual void sees(const SentUpdate& /*one*/) {}
  // Does it add the updates to the sum, in the place of their coefficients?
  virtual bool takes_updates() const { return false; }
  // Adds an update.
  virtual FoldResult take(const SummedUpdate& /*one*/, UpdateSum& /*sum*/) { return {}; }

  // In the place of take(): the parts of an update that enter the sum, each with its coefficient;
  // the update's values are not there yet. Empty: take() adds it.
  virtual std::vector<WeighedPart> parts_of(const SummedUpdate& /*one*/) { return {}; }

  // What updates count, where the rule waits for the training: rows that are weighed beside the
  // updates; then what all rows' products tell. Collective.
  virtual void add_rows(KnownRound& /*known*/) {}
  virtual void products_known(KnownRound& /*known*/) {}
  // Rank 0: what the rule was told of the participants and of so many absent clients, and its
  // answer.
  virtual void answered(const RoundReport& /*told*/, std::size_t /*absent*/, const Mix& /*mix*/) {}
  // Rank 0: may change what the rule gives to the updates, before or after the training.
  virtual void weigh(RoundWeights& /*weights*/) {}
  // Rank 0: what all rows count is decided.
  virtual void weighed(const WeighedRound& /*weighed*/) {}

  // All of this rank's updates are in. Collective.
  virtual void closes(UpdateSum& /*sum*/) {}
  // Rank 0: what the training has told.
  virtual void trained(const TrainedRound& /*round*/) {}
  // Rank 0, with the sum over all ranks: may change it, or write the rows that the server steps by
  // and clear it. Did it write them? The last part is the first to read.
  virtual bool reads(UpdateSum& /*sum*/, std::span<float> /*rows*/) { return false; }
  // Rank 0: the mixed update's values from `begin` on are there, by which the server steps.
  virtual void mixed(int64_t /*begin*/, std::span<const float> /*update*/) {}
  // Rank 0: entries that stand still in this round, ascending: neither they move nor what the
  // server's optimizer keeps of them.
  virtual std::span<const RowPart> still() const { return {}; }
  // Does it step the model in the place of the server's optimizer?
  virtual bool steps() const { return false; }
  // Rank 0: steps the model's entries from `begin` on.
  virtual void step(int64_t /*begin*/, std::span<const float> /*update*/,
                    std::span<float> /*theta*/) {}
  // Rank 0: the server has stepped the model, or these entries of it from `begin` on.
  virtual void stepped(int64_t /*begin*/, std::span<float> /*theta*/) {}
  // Does the server step though nobody came?
  virtual bool steps_alone() const { return false; }
  // The sum has gone, on every rank.
  virtual void finishes() {}

  // Rank 0: its own metrics of an evaluation of clients. The same names every time.
  virtual Metrics evaluated(const EvaluationTable& /*clients*/) const { return {}; }

  // Rank 0: why there may be no further round; empty: there may.
  virtual std::string end() const { return ""; }
  // Adds its own columns to the run's tables; it outlives them.
  virtual void add_columns(Columns& /*columns*/) const {}
  // Rank 0: the lines of its own tables since the last call.
  virtual std::vector<TableLines> take_lines() { return {}; }

  // The name of its state in checkpoints; a part without a state has none.
  virtual const char* name() const { return ""; }
  // Brings what save() needs to rank 0, and what load() found there to the others. Collective.
  virtual void collect() {}
  virtual void share() {}
};

}  // namespace hanse
