// How long a round of a federated job takes on given machines: its clients' work at the speed that
// was measured here, and the protocol's messages over the links.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/data/federation.hpp"
#include "hanse/evaluation/asked_metrics.hpp"
#include "hanse/protocol/footprint.hpp"
#include "hanse/protocol/turnout.hpp"
#include "machines.hpp"

namespace hanse {

// The samples of a client's evaluation, which does not go through its training samples twice.
double samples_evaluated(const Federation& federation, int64_t client,
                         EvaluateOn on = EvaluateOn::kTest);

// The means of timed rounds, on rank 0.
struct RoundMeans {
  double round_s = 0;     // RoundRecord::seconds
  double train_s = 0;     // RoundRecord::train_s
  double server_s = 0;    // the server's step
  double transfer_s = 0;  // the sum to rank 0 and the model back, beside it
};

// How fast a job's work goes on the started ranks.
struct Rates {
  // Were whole rounds timed, as the run would make them? If these would take too long or keep too
  // much, the rounds were of one client a rank, which took few steps.
  bool whole = false;
  RoundMeans means;           // of these rounds
  double train_sample_s = 0;  // to train on a sample, on one rank
  double sample_s = 0;        // to evaluate a sample
  double product_s = 0;       // the inner products of a round's updates and a rule's own
                              // columns, on one rank
  double rule_s = 0;          // of what the rule computes of these, where no whole round was timed
  double work_bytes = 0;      // that training and evaluation took beside rows and pass_bytes
  double pass_bytes = 0;      // Model::pass_bytes(), the most of a rank's
  double state_bytes = 0;     // by which the process grows while it writes a checkpoint
  double saved_bytes = 0;     // of rank 0's part of a checkpoint
  MachineSpeeds machine;
};

// What the clients of a federated job have to do.
class Workload {
 public:
  // The work of one or several participations: mini-batch steps, samples trained on, and samples
  // whose losses the rule needs before that.
  struct Work {
    double steps = 0;
    double trained = 0;
    double losses = 0;
  };

  // Draws the participants of the job's first rounds from a sampler of its own, as if it learned
  // nothing from them. `job`: as clients train, for a bound that of bound_job(). `turnout`: who of
  // the drawn counts, on a clock that has not begun; null: all do.
  Workload(const Job& job, const Federation& federation, bool needs_losses,
           Turnout* turnout = nullptr);

  // Seconds of the participants' training and losses on the busiest rank; mean of the rounds drawn.
  double drawn_s(const Cluster& cluster, double train_sample_s, double sample_s) const;
  // drawn_s(), and all clients' training before it where the sampler asks for it.
  double training_s(const Cluster& cluster, const Rates& rates) const;
  // Share of their time in which ranks train, of that until the last one has done its part.
  double busy_share(const Cluster& cluster, double train_sample_s, double sample_s) const;
  // Participants of the busiest rank, the most of the rounds drawn.
  double most_on_rank(const Cluster& cluster) const;

  int64_t clients = 1;                    // that can take part: one when all samples are pooled
  double participants = 0;                // of a round, mean
  bool has_losses = false;                // are the participants' losses measured?
  bool all_clients_first = false;         // do all clients train before each draw?
  double candidates = 0;                  // whose losses the sampler needs first, mean of a round
  double candidate_samples = 0;           // of these
  Work all;                               // of all clients together
  double evaluated = 0;                   // samples of an evaluation
  double tuned = 0;                       // that evaluate.tune-steps train on for it
  std::vector<std::vector<Work>> rounds;  // of each participant of the rounds drawn
  std::vector<RoundTurnout> turnouts;     // of these rounds, on a clock
  std::vector<std::vector<UpcomingTask>> upcoming;  // theirs
  double virtual_s = 0;                             // of a round, mean
  double versions_kept = 0;  // models that ranks keep beside the newest, at most

 private:
  std::vector<double> samples_of_client;  // [clients] trained on in a round
  struct Busy {
    double training_s = 0;  // of all ranks
    double round_s = 0;     // until the last one has done its part
  };
  Busy rounds_s(const Cluster& cluster, double train_sample_s, double sample_s) const;
};

// What the protocol does in a round of the job.
struct RoundKind {
  FederatedFacts facts;
  bool overlaps = true;             // step_overlaps()
  bool own_models = false;          // an evaluation uses all clients' own models
  bool trains_to_evaluate = false;  // ... which clients train for it
};

struct PlannedTimes {
  double training_s = 0;  // with the participants' losses, and all that comes before the draw
  double products_s = 0;  // inner products
  double down_s = 0;      // the model to the ranks
  double up_s = 0;        // the updates' sum to rank 0
  // Those two and the server's step, which may overlap, and control variates.
  double exchange_s = 0;
  double link_bytes = 0;  // of these, over the busiest host's link
  double small_s = 0;     // messages of a few bytes
  double rest_s = 0;      // of whole rounds: what rank 0 decides, and what ranks lose by waiting
  double evaluation_s = 0;

  double round_s() const { return training_s + products_s + exchange_s + small_s + rest_s; }
};

// The link between the started ranks over which the exchange takes as long as it did; rates 0 for
// one rank.
Link measured_link(const RoundKind& kind, const Rates& rates, const Cluster& started);

// Multiplies samples by what one takes here, and transfers by the links' rates. Adds to every
// planned round what whole rounds took beyond that on the `started` ranks.
PlannedTimes estimate_round(const RoundKind& kind, const Workload& workload, const Rates& rates,
                            const Cluster& started, const Cluster& planned);

}  // namespace hanse
