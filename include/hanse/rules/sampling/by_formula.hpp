// Draws by an expression of the user's.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// A client's probability is proportional to the formula's value (rules/formula/formula.hpp); the
// draw's weights make sums unbiased, as those of all samplers by probabilities. Names: n, its
// training samples; lambda, its share of all samples; a and F, what it reported when it last took
// part (Feedback), and before that the mean over the clients that have, or 1 when nobody has; age,
// the rounds since then, or since the start; round, from 1.
// `samples` [M]. Throws InvalidArgument for a formula that cannot be parsed; the draws do when a
// value is negative or not finite, or all are 0.
// Cost a round: O(M) for each operation. Memory and state: 3 M numbers.
std::unique_ptr<ClientSampler> make_formula_sampler(const std::string& formula,
                                                    std::span<const double> samples,
                                                    int64_t per_round, bool replacement);

}  // namespace hanse
