// Where a rank's finished updates go.
//
// A sink takes the updates of this rank's clients as they end, combines them by the coefficients of
// the rule where that waits for them, and hands their sum over to the server. It knows how wide
// that sum is, what it keeps of each client, and what the rule weighs an update by.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "federated/second_row.hpp"
#include "hanse/base/processor.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/entry_step.hpp"
#include "hanse/protocol/engines.hpp"
#include "hanse/sums/gram.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// Which values of a model's row the ranks send each other: all of them, first those that gradients
// train, behind them the buffers.
struct SentRow {
  explicit SentRow(const Model& model)
      : trained(static_cast<std::size_t>(model.layout().n_trainable())),
        size(static_cast<std::size_t>(model.n_params())) {}
  std::size_t trained, size;
};

// How many updates of a rank's clients are added to the sum at once, with a row each: as many as
// one pass takes where no cache holds such rows; one beside second rows, of `second` values.
inline std::size_t folded_at_once(int64_t n_params, int64_t second) {
  return n_params > kCachedValues && second == 0 ? UpdateSum::kTogether : 1;
}

// Rows of the sum for a rule with these needs: the updates', and the weights' by which a masked sum
// is divided.
inline int64_t sum_rows(const AggregatorNeeds& needs) { return needs.sign_share ? 2 : 1; }

// Rows that are weighed beside the updates: the rule's own, and those that attackers forge with.
inline int64_t further_rows(const AggregatorNeeds& needs) {
  return (needs.extra_row != ExtraRow::kNone ? 1 : 0) + needs.forging_rows;
}

inline Reduction reduction_of(const FederatedSettings& settings) { return settings.comm.reduction; }

// Rank 0's step of a round; empty on other ranks and where there is none.
struct SumStep {
  ExchangeStep part = {};  // of the updates' entries
  // `part` as a rule for each entry of the sum, where the server's step is this alone.
  std::optional<EntryStep> by_entry = {};
  EntryStates states = {};
};

struct ExchangeReport {
  ExchangeTimes times;
  int64_t sum_bytes = 0;      // of one rank's sum on the wire
  bool shares_model = false;  // all ranks have the new model
};

// The updates of a round that a rank keeps until the rule has weighed them.
class KeptUpdates {
 public:
  // The inner products [layers, k, k], on rank 0, of the kept updates and further rows, k in all
  // with the last of the `absent` clients, which `states` has on the ranks that keep them.
  // Collective.
  virtual std::vector<double> gram(int64_t k, std::span<const int64_t> absent,
                                   ClientStateStore* states) = 0;
  // Weighs a further row as a kept update, until these are forgotten; `values` [P] must stay. On
  // hosts alone, as the next two.
  virtual void add_row(OwnedRow /*row*/) {}
  // The kept updates and further rows of this rank.
  virtual std::vector<OwnedRow> rows() const { return {}; }
  // Adds entries to the sum from `begin` on. False where one is out of range.
  virtual bool add_entries(int64_t /*begin*/, std::span<const double> /*values*/) { return false; }
  // Sums the kept updates by coefficients [layers, k], and forgets them. Returns the position of an
  // update that is out of range, else -1.
  virtual int64_t combine(std::span<const double> coefficients, int64_t k) = 0;
  // Forgets the kept updates.
  virtual void drop() = 0;

 protected:
  ~KeptUpdates() = default;
};

class UpdateSink {
 public:
  // `second`: values of the row that clients send beside their updates.
  UpdateSink(int64_t second, const FederatedSettings& settings)
      : second_row_(second, settings.max_participants, reduction_of(settings)) {}
  virtual ~UpdateSink() = default;

  // What clients send beside their updates, and its sum.
  SecondRow& second_row() { return second_row_; }

  // What it keeps of each client between rounds, the last of the client's state.
  virtual std::vector<StateBlock> state_blocks() const { return {}; }

  // Multiplies what was taken: sum <- factor * sum. REQUIRES: as UpdateSum::scale().
  virtual void scale(double factor) = 0;

  // Null: it adds updates as they come.
  virtual KeptUpdates* kept() { return nullptr; }

  // Brings the sum to rank 0, which steps on the parts of `model` as they come, and perhaps the
  // model back; or every rank steps by itself. Forgets the round. Collective.
  virtual ExchangeReport hand_over(std::span<float> model, const SumStep& step) = 0;

 private:
  SecondRow second_row_;
};

}  // namespace hanse
