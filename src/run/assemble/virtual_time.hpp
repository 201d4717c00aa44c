// The virtual clock of a federated job, and who turns up by it.
#pragma once

#include <memory>

#include "hanse/job/job.hpp"
#include "hanse/kinds/clock.hpp"
#include "hanse/protocol/turnout.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

struct FederatedAssembly;

struct VirtualTime {
  VirtualClock clock;
  std::unique_ptr<Turnout> turnout;  // null: there is no clock
};

// The job as its sampler knows it: with the number of clients that a round or a dispatch draws at
// most.
Job drawing_job(const Job& job);

// Updates of a round at most, where the sampler draws `per_round` of `clients`.
int64_t most_updates(const Job& job, int64_t per_round, int64_t clients);

// Do participants differ in the model or the number of steps?
bool is_timed(const Job& job);

// How updates of older models count.
AsyncOptions staleness_options(const Job& job);

// Makes the clock of parts.trained, where it has one, and adds to parts.greeting what is odd about
// it; `clock.path` and its like get into parts.files. Rank 0. Throws InvalidArgument.
VirtualTime make_virtual_time(FederatedAssembly& parts);

// Refuses what does not go with asynchronous rounds or late updates. Throws InvalidArgument.
void check_virtual_time(const Job& job, const AggregatorNeeds& needs);

}  // namespace hanse
