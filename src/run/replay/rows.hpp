// Whole updates of a replayed round.
#pragma once

#include <string>
#include <vector>

#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/own_columns.hpp"
#include "json_fields.hpp"

namespace hanse {

using Rows = std::vector<std::vector<double>>;

// [K] "rows" of equally many numbers. Throws InvalidArgument that names `where`.
Rows read_rows(const Json& round, const std::string& where);

// [K, K] their inner products.
std::vector<double> gram_of_rows(const Rows& rows);

// [P] the step of a rule by columns; 0 where it makes none.
// `own`: for a rule of one's own, which has begun the round.
std::vector<double> step_by_columns(const Mix& mix, const Rows& rows,
                                    ColumnFunction* own = nullptr);

}  // namespace hanse
