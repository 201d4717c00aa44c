// How fast a job's work goes here: rounds that are timed.
#pragma once

#include "assemble/assemble.hpp"
#include "hanse/protocol/protocol.hpp"
#include "round_times.hpp"

namespace hanse {

// Resident memory of this process.
double resident_bytes();
// Its part that it shares with the host's other ranks.
double shared_resident_bytes();

// Makes rounds for about so long, and at most so many. The first, which warms caches and brings the
// model to the ranks, does not count unless it is the only one. Collective. Throws AgreedError when
// training fails.
RoundMeans time_rounds(Protocol& protocol, double limit_s, int64_t most, Communicator& comm);

// Collective; takes some five seconds. `parts` are on scratch state: their model is initialized and
// moved, and must not be kept. A rank keeps `row_bytes` of a whole round. The rates are complete on
// rank 0. Throws AgreedError when training fails.
Rates measure(FederatedAssembly& parts, const Workload& workload, double row_bytes,
              const PlanCase& plan);

}  // namespace hanse
