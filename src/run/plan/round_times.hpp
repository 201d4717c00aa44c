// How long a round of a federated job takes on given machines, part by part. Rank 0.
#pragma once

#include "cost.hpp"
#include "hanse/protocol/footprint.hpp"
#include "measure.hpp"
#include "workload.hpp"

namespace hanse {

struct RoundTimes {
  double all_clients_s = 0;  // training of all clients before the draw
  double losses_s = 0;       // the participants' losses at the received model
  double training_s = 0;
  double products_s = 0;  // inner products
  double down_s = 0;      // the model to the ranks
  double up_s = 0;        // the updates' sum to rank 0
  double exchange_s =
      0;               // those two and the server's step, which may overlap, and control variates
  double small_s = 0;  // messages of a few bytes, and what ranks lose by waiting
  double evaluation_s = 0;

  double round_s() const {
    return all_clients_s + losses_s + training_s + products_s + exchange_s + small_s;
  }
};

struct RoundKind {
  FederatedFacts facts;
  bool overlaps = true;             // step_overlaps()
  bool own_models = false;          // an evaluation is of all clients' own models
  bool trains_to_evaluate = false;  // ... which clients train for it
};

// Samples are multiplied by what one takes here, transfers by the links' rates. What whole rounds
// took beyond that on the `started` ranks is added to every planned round.
RoundTimes estimate_round(const RoundKind& kind, const Workload& workload, const Rates& rates,
                          const Cluster& started, const Cluster& planned);

}  // namespace hanse
