// The direction in which a client has moved each entry of the model: FedHEAL's memory of signs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/row_part.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

// An entry of an update u = theta_i - theta counts (m = 1) when the client has moved it like this,
// down or not at all (u <= 0) or up (u > 0), in more than the share `threshold` of its earlier
// rounds; in the client's first round, and in buffers, all entries count.
// State of a client: how often it has moved each trained entry down or not at all, and its rounds;
// exact up to 2^24 rounds. Cost of each method: one pass over update and state.
class SignMemory {
 public:
  SignMemory(const ParameterLayout& layout, double threshold);

  std::vector<StateBlock> state_blocks() const;

  // In each method `update` is [P] and `state` the client's, [width_of(state_blocks())].
  // sum over the trained tensors of |m u|.
  double distance(std::span<const float> update, std::span<const float> state) const;
  // masked <- m u and mask <- m of the entries from `begin` on, as many as `masked` has.
  void mask(std::span<const float> update, std::span<const float> state, int64_t begin,
            std::span<float> masked, std::span<float> mask) const;
  // Adds the update's signs to the state.
  void remember(std::span<const float> update, std::span<float> state) const;

 private:
  std::vector<RowPart> tensors_;  // those that gradients train
  std::size_t trained_;           // values in them
  double threshold_;
};

}  // namespace hanse
