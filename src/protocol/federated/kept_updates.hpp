// The updates of a round that a rank keeps until they are weighed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/client/sign_memory.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/sums/gram.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// What the rule weighs by, and how the updates are summed, is in its needs:
//   gram          by inner products; the sum is that of the updates;
//   last_updates  so, and the last updates of absent clients are weighed too;
//   sign_share    by distances; the sum is [2 P]: of the updates' entries that count, and of the
//                 weights with which they count, by which divide() divides on rank 0.
// Of each client the rank keeps what state_blocks() says, as long as the run lasts.
// Memory: a row for each of this rank's participants in its busiest round, and what GramExchange
// takes.
class KeptUpdates {
 public:
  KeptUpdates(Communicator& comm, const ParameterLayout& layout, const AggregatorNeeds& needs);

  std::vector<StateBlock> state_blocks() const { return blocks_; }

  // Keeps row - theta, or the row itself when it is the update already, for `position` in the
  // draw, and sets row = theta. `state`: the client's blocks. The result is out of range when the
  // update is not finite; its norm is that of the trained entries.
  FoldResult keep(int64_t position, std::span<float> state, AlignedFloats& row,
                  std::span<const float> theta, bool is_update);
  // What the rule weighs the update by that was kept last, with sign_share; else nothing.
  std::optional<double> distance() const;
  // Keeps a place in the round for the last update of an absent client, with these blocks.
  void keep_absent(int64_t position, std::span<const float> state);

  // Collective: GramExchange::gram of the k updates of the round, absent clients' among them.
  std::vector<double> gram(int64_t k);
  // Folds the updates by coefficients [layers, k] into `sum`, brings the clients' blocks up to date
  // and forgets the updates. Returns the position of one that is out of range, else -1.
  int64_t fold(std::span<const double> coefficients, int64_t k, UpdateSum& sum);
  void clear();

  // update <- update / weights, 0 where the weights are 0.
  static void divide(std::span<float> update, std::span<const float> weights);

 private:
  struct Kept {
    int64_t position;
    std::span<float> state;
  };

  std::vector<OwnedRow> rows_of_round() const;
  int64_t fold_layers(std::span<const double> coefficients, int64_t k, UpdateSum& sum) const;
  int64_t fold_signed(std::span<const double> coefficients, UpdateSum& sum) const;
  void remember();

  std::vector<RowPart> layers_;  // the parts of a row that are weighed apart
  std::size_t trained_;          // values that gradients train
  std::optional<SignMemory> signs_;
  bool remembers_updates_;
  std::vector<StateBlock> blocks_;
  GramExchange exchange_;
  std::vector<AlignedFloats> rows_;  // [P] each; the first kept_.size() are in use
  std::vector<Kept> kept_;
  std::vector<OwnedRow> absent_;
};

}  // namespace hanse
