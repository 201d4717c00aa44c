// What more ranks bring a job: numbers of ranks side by side, and the answer of
// `hanse plan --advise` in words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "machines.hpp"
#include "round_times.hpp"

namespace hanse {

// A number of ranks, and what the job takes on them.
struct RanksTried {
  Cluster cluster;
  PlannedTimes times;
  double server_s = 0;     // the server's step, a part of times.exchange_s
  double even_s = 0;       // of times.training_s, if all ranks that train had equal shares
  double most = 0;         // participants of the busiest rank
  double rounds = 1;       // of a run
  double evaluations = 0;  // of a run
  double rank_bytes = 0;   // memory of a rank
  double host_bytes = 0;   // memory of a host, with the data

  double run_s() const { return rounds * times.round_s() + evaluations * times.evaluation_s; }
};

// Powers of two up to the ranks of a full host, `slots`; then full hosts, twice as many each time,
// until each of `most_participants` has a rank of its own beside a rank 0 that trains nobody. At
// most 4096 or so.
std::vector<int64_t> ranks_to_try(double most_participants, double slots);

// What a run's time mostly goes to: "training", "unequal shares" (of some ranks, for which the
// others wait), "the longest client" (these, where no rank trains two), "the link", "rank 0",
// "inner products" or "evaluations".
std::string longest_part(const RanksTried& tried);

// Places in a list of RanksTried, whose first is one rank.
struct Advice {
  // The fewest ranks of which no further doubling makes the run a fifth faster, nor several
  // doublings as much each; where messages take twice the time that is estimated.
  std::size_t most = 0;
  std::size_t thrifty = 0;  // the most, up to these, that do at least half of what they could
};
Advice choose_ranks(std::span<const RanksTried> tried);

// What is the same for all numbers of ranks.
struct AdvisedJob {
  double participants = 0;  // of a round, mean
  double longest_s = 0;     // training of a round in which no rank trains two participants
  double room_bytes = 0;    // memory of the machine that plans
  double sample_s = 0;      // to train on a sample, on one rank
  std::string link;         // where its speed comes from, by set_links()
};

// The table of all `tried`, which ranks to take, what ends the gain, and what to do instead.
void describe(std::span<const RanksTried> tried, const AdvisedJob& job, PlanSheet& sheet);

}  // namespace hanse
