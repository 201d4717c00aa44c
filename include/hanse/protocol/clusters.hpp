// Rounds of clients in clusters, each with a copy of some tensors (IFCA, Ghosh et al. 2020,
// Algorithm 1, option II: clients average models).
//
// A participant i takes one copy a_i: a fixed one, or that of the least F_i, which is measured on
// the samples of aggregator.loss (ties to the first). While all copies are equal, a_i is uniform
// from the stream (seed, kCopies, round, i). With c_i the rule's coefficients, the sum is
//   shared entries and buffers: sum_i c_i u_i,    copy a: sum_{i: a_i = a} c_i u_i / C_a,
//   C_a = sum_{i: a_i = a} c_i, added up in the draw's order.                              (I2)
// A copy whose C_a is 0 stands still, and what the server's optimizer keeps of it. An update's norm
// is that of the entries that the client trains.
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/client/clustered.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/clustered_model.hpp"
#include "hanse/protocol/round_part.hpp"

namespace hanse {

struct ClustersCase {
  Communicator& comm;
  const Federation& federation;
  ClusteredModel& model;
  ClusteredUpdate& update;
  uint64_t seed = 1;         // of clients' draws
  int64_t loss_batches = 0;  // FederatedSettings::loss_batches
};

// All of the case must outlive it. Cost a round: where no copies are fixed k passes over the
// participants' samples of a loss, and K numbers to all ranks. State: each client's last copy, on
// rank 0; and in the clients' states. Columns: participants of each copy, up to 20 (rounds.csv),
// `cluster` (clients.csv), cluster_accuracy_worst (evaluations.csv), clusters_used (summary.json).
std::unique_ptr<RoundPart> make_clusters(const ClustersCase& of);

}  // namespace hanse
