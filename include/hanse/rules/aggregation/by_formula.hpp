// Weights by an expression of the user's.
#pragma once

#include <memory>
#include <string>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// A participant's value is the formula's (rules/formula/formula.hpp), its coefficient the value
// divided by the sum of all values. Names: n, its training samples; lambda, its share of all
// samples; w, the draw's weight, which counts only where the formula uses it; F, its loss; norm,
// |theta_i - theta|^2; K, the participants of the round; M, all clients; round, from 1.
// It needs only the names in the formula: losses for F; for norm the updates are kept until it is
// known. Throws InvalidArgument for a formula that cannot be parsed; mix() does when a value is
// negative or not finite, or all are 0.
// REQUIRES: clients >= 1. Cost a round: O(participants) for each operation.
std::unique_ptr<Aggregator> make_by_formula(const std::string& formula, int64_t clients);

}  // namespace hanse
