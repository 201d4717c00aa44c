// Kinds whose rule is a file of the user's own: python and plugin, of aggregator.kind, sampler.kind
// and server.optimizer, and evaluate.metric.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hanse/base/rule_file.hpp"
#include "hanse/plugin/rules.hpp"

namespace hanse {

struct Job;

inline bool is_own_rule(const std::string& kind) { return kind == "python" || kind == "plugin"; }

// The rule of that section. REQUIRES: is_own_rule(kind).
RuleSource own_rule(const std::string& section, const std::string& kind, const RuleFile& file);

// The columns of the job's aggregator, whose needs() say own_columns. With run.check-rules a fresh
// one computes every block again. Throws InvalidArgument as make_own_aggregator().
std::unique_ptr<ColumnFunction> own_columns_of(const Job& job, int64_t clients);

// The files that the job's chosen kinds name, each with the key of its path. `has_rules`: does its
// protocol read aggregator.kind and the like?
std::vector<std::pair<std::string, RuleFile*>> rule_files(Job& job, bool has_rules);

// Sets their digests. Throws InvalidArgument when a file cannot be read, or its digest is not the
// one that the job has. Cost: reads the files.
void digest_rule_files(Job& job, bool has_rules);

}  // namespace hanse
