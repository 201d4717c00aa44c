// Steps by columns that no value decides: what spares attackers most passes over all columns.
#pragma once

#include <optional>
#include <vector>

#include "hanse/rules/aggregation/column_rules.hpp"

namespace hanse {

// The coefficients [K] of the step of `mix`, where so many of its mapped rows are the same that
// they alone count in every column, whatever the others are; nothing where values decide. Nearest-
// neighbour mixing of honest rows with one that is far from all of them makes such rows. Cost:
// O(n^2 K).
std::optional<std::vector<double>> certain_step(const ColumnMix& mix);

}  // namespace hanse
