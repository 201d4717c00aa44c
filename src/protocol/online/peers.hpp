// Which nodes' models a node mixes, with which weights; and Omni-Fedge's step, by the gradients of
// all nodes at every node's model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/base/row_part.hpp"
#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/mixing.hpp"
#include "hanse/model/model.hpp"
#include "hanse/rules/experts/experts.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// Every rank has a copy, and all learn the same.
class PeerMixture : public Stateful {
 public:
  // Before the first round the weights are those of all nodes. `rule` must outlive the object.
  // `in_place`: mix() replaces one node's estimate after the other, see there.
  PeerMixture(ExpertRule& rule, int64_t nodes, bool in_place = false,
              RowMixer mix_rows = hanse::mix_rows);

  // Takes the weights of these participants, by which mix() mixes.
  void weigh(std::span<const int64_t> participants);
  std::span<const double> weights() const { return weights_; }  // [N, N]
  double weight(int64_t node, int64_t peer) const;
  // theta_i = sum over the participants of p_ij gamma_j [N, P]; gamma_i where the node's last test
  // said no. In place: with theta_j in the place of gamma_j for j < i, as Fed-Exp's authors ran it.
  // Leaves gamma undefined where the rule exchanges nothing.
  void mix(std::vector<float>& gamma, std::vector<float>& theta);
  // May the node mix in the next round?
  void allow(int64_t node, bool may) { mixes_[static_cast<std::size_t>(node)] = may ? 1 : 0; }
  std::span<const int64_t> mixed() const { return mixed_; }  // [N] did it in the last one?

  void observe(std::span<const double> losses) { rule_.observe(losses); }

 private:
  void visit(StateFields& fields) override;

  void mix_in_place(std::span<const float> gamma, std::span<float> theta);

  ExpertRule& rule_;
  std::size_t nodes_;
  bool in_place_;
  RowMixer mix_rows_;
  std::vector<double> weights_;  // [N, N] of the last mixture
  std::vector<int64_t> mixes_;   // [N] may the node mix in the next round?
  std::vector<int64_t> mixed_;   // [N] did it in the last one?
};

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
