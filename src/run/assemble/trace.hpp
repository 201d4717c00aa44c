// trace-sampler.json and trace-aggregator.json: what the rules of a run were given, for replays.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "assemble.hpp"
#include "hanse/job/keyed_job.hpp"

namespace hanse {

// Begins two traces in run.out that `hanse replay` accepts, or continues those of the folder `from`
// after `completed` rounds; later rounds are cut. What is returned appends the last round to both,
// which are whole after that; `parts` must outlive it. Rank 0. Both throw IoError.
std::function<void()> trace_rounds(const KeyedJob& job, const FederatedAssembly& parts,
                                   const std::string& from, int64_t completed);

}  // namespace hanse
