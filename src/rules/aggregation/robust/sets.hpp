// Rules that look for the best set of rows.
#pragma once

#include <cstdint>
#include <optional>

#include "hanse/rules/aggregation/robust_rule.hpp"

namespace hanse::robust {

// Sets of n - f rows that a rule may look at.
inline constexpr int64_t kMostSets = 1000000;

// C(n, k), at most `most`. REQUIRES: 0 <= k <= n.
int64_t combinations(int64_t n, int64_t k, int64_t most);

// RobustRule::lacks: n rows have more than kMostSets sets without f of them.
std::optional<InvalidArgument> too_many_sets(const RobustOptions& options, int64_t n, int64_t f);

}  // namespace hanse::robust
