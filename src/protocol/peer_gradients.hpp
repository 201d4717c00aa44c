// Gradients of all nodes at every node's model: Omni-Fedge's step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/base/row_part.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/model.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// The parts of a row that move one after the other: all layers but the last, then the last.
std::vector<RowPart> peer_steps(const Model& model);

// sum_i w_li grad L_i(theta_l) for each of N models l, on one part of their rows. The sum is exact:
// it does not depend on which rank adds which node's. Memory: 12 bytes a value of N parts.
class PeerGradients {
 public:
  PeerGradients(Model& model, int64_t nodes, RowPart part);

  // Adds what node i's batch says of all models, theta [N, P] and w_li [N, N] in (l, i). Throws
  // InvalidArgument when a gradient is not finite or too large.
  void add(int64_t node, const Batch& batch, std::span<const float> theta,
           std::span<const double> weights, const RandomStream& noise);
  // theta_l <- theta_l - lr times the sum over all ranks, on all of them. Collective.
  void step(Communicator& comm, double lr, std::span<float> theta);

 private:
  Model& model_;
  int64_t nodes_;
  RowPart part_;
  UpdateSum sum_;                // [N, part]
  std::vector<float> gradient_;  // [P]
};

}  // namespace hanse
