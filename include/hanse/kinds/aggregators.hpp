// Aggregators by the names of a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/job/aggregator_options.hpp"
#include "hanse/kinds/aggregator_traits.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

struct Job;

// Throws InvalidArgument for an unknown kind.
AggregatorTraits aggregator_traits(const AggregatorOptions& options);

// `participation` is the share of clients in a round, in (0, 1]. Throws InvalidArgument when
// options and clients do not fit together.
std::unique_ptr<Aggregator> make_aggregator(const Job& job, int64_t clients, double participation);

// What the user should know of the rule in this job, in one line; empty: nothing.
std::string aggregator_notice(const Job& job);

}  // namespace hanse
