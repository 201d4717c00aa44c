// Checks beside a run or a replay that rules are pure: arguments and saved state determine what
// they decide.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/own_columns.hpp"
#include "hanse/rules/attack/attack.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// The usual fault of a rule that is not pure.
inline constexpr const char* kPurityHint =
    "a rule keeps what it learns in its saved state, and takes chance from the stream that it is "
    "given";

// Makes one rule as often as it is asked to.
template <class Rule>
using RuleMaker = std::function<std::unique_ptr<Rule>()>;

// Each of these returns a rule that does what make()'s do, and in every round a fresh one, loaded
// with the state that the first has saved, does the same beside it. Throws Error where they differ,
// in the bits of a number that they decide or of the state that a round leaves behind; it names
// `rule` ("sampler.kind = osmd"), the round, and the first number that differs. The sampler's draw
// and the aggregator's mix write the round's number to `round`, and the optimizer reads it.
// Cost: every decision twice, and the state saved three times and loaded once a round.
std::unique_ptr<ClientSampler> checked_sampler(const std::string& rule,
                                               RuleMaker<ClientSampler> make,
                                               std::shared_ptr<int64_t> round);
std::unique_ptr<Aggregator> checked_aggregator(const std::string& rule, RuleMaker<Aggregator> make,
                                               std::shared_ptr<int64_t> round);
// A round of an optimizer steps n_params entries, in any number of parts.
std::unique_ptr<ServerOptimizer> checked_optimizer(const std::string& rule,
                                                   RuleMaker<ServerOptimizer> make,
                                                   int64_t n_params,
                                                   std::shared_ptr<int64_t> round);
std::unique_ptr<Attack> checked_attack(const std::string& rule, RuleMaker<Attack> make);
// Every block is computed again by a fresh one, which has seen no block before.
std::unique_ptr<ColumnFunction> checked_columns(const std::string& rule,
                                                const RuleMaker<ColumnFunction>& make);

}  // namespace hanse
