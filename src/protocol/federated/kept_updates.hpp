// The updates of a round that a rank keeps until they are weighed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/sums/gram.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// Memory: a row for each of this rank's participants in its busiest round, and what GramExchange
// takes.
class KeptUpdates {
 public:
  // `layers`: the parts of a row that are weighed apart, all of the row together.
  KeptUpdates(Communicator& comm, std::vector<RowPart> layers);

  // Keeps row - theta, or the row itself when it is the update already, for `position` in the
  // draw, and sets row = theta. Returns the update's squared norm.
  double keep(int64_t position, AlignedFloats& row, std::span<const float> theta, bool is_update);

  // Collective: GramExchange::gram of the k updates of the round.
  std::vector<double> gram(int64_t k);

  // Folds the kept updates by coefficients [layers, k] into `sum`, and forgets them. Returns the
  // position of one that is out of range, else -1.
  int64_t fold(std::span<const double> coefficients, int64_t k, UpdateSum& sum);
  void clear() { positions_.clear(); }

  std::size_t layers() const { return layers_.size(); }

 private:
  std::vector<RowPart> layers_;
  GramExchange exchange_;
  std::vector<AlignedFloats> rows_;  // [P] each; the first positions_.size() are in use
  std::vector<int64_t> positions_;
};

}  // namespace hanse
