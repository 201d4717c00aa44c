// Rules of the user's own: libraries with the interface of hanse/plugin.h, and Python files, which
// a bridge with that interface runs.
//
// Every maker throws InvalidArgument when the file cannot be loaded, has no such rule, or the rule
// refuses. A rule's later errors are InvalidArguments that name the option and the file. A rule's
// state is what it saves, under "own"; all but ColumnFunctions are called on one rank alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "hanse/base/rule_file.hpp"
#include "hanse/data/names.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/own_columns.hpp"
#include "hanse/rules/attack/attack.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// The coefficients must be finite, and not negative unless the rule needs the Gram matrix.
std::unique_ptr<Aggregator> make_own_aggregator(const RuleSource& source, int64_t clients);

// The columns of an aggregator whose needs() say own_columns. begin() makes it anew where the
// aggregator has a state.
std::unique_ptr<ColumnFunction> make_own_columns(const RuleSource& source, int64_t clients);

// The probabilities of its draws are not known: they are NaN. It may draw fewer than a round asks
// for; more are refused.
// `samples` [clients]: their training samples, which the rule is told.
std::unique_ptr<ClientSampler> make_own_sampler(const RuleSource& source,
                                                std::span<const double> samples, int64_t per_round);

// Steps on whole rows only.
std::unique_ptr<ServerOptimizer> make_own_optimizer(const RuleSource& source, int64_t clients);

// The coefficients must be finite.
std::unique_ptr<Attack> make_own_attack(const RuleSource& source);

// More columns of an evaluation. `names` are the clients', in their order.
using OwnMetric = std::function<Metrics(const EvaluationView& clients, const Names& names)>;
// `path` is a Python file, which ends in .py, or a library.
OwnMetric make_own_metric(const std::string& path);

}  // namespace hanse
