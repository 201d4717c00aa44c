// The robust rules as kinds, and what comes before fedavg.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/job/kind.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

std::vector<KindRow<Job>> robust_kinds();

// Is it one of robust_kinds(), or fedavg of updates that are mapped first?
bool is_robust(const AggregatorOptions& options);

// Is it fedavg of updates that are mapped first?
bool is_mapped_mean(const AggregatorOptions& options);

// The rule of one of robust_kinds(), or of a mapped mean.
std::unique_ptr<Aggregator> make_robust_aggregator(const Job& job, int64_t clients);

// Does it trust one participant?
bool trusts_participant(const AggregatorOptions& options);

// What keeps the rule from weighing so many participants; none: nothing does, or the rule is none
// of these, or such rounds are skipped.
std::optional<InvalidArgument> robust_shortfall(const Job& job, int64_t clients,
                                                int64_t participants);

}  // namespace hanse
