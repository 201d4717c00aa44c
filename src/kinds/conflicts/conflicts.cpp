#include "hanse/kinds/conflicts.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "facts.hpp"
#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/kinds/own_rules.hpp"

namespace hanse {

namespace {

// The needs of the job's rule by its kind. How many clients there are does not enter.
AggregatorNeeds needs_of_kind(const Job& job) {
  if (is_own_rule(job.aggregator.kind)) return {};
  Job alone;
  alone.aggregator = job.aggregator;
  alone.aggregator.capped_sum = 1;
  alone.aggregator.c2 = std::max(alone.aggregator.c2, 2 * alone.aggregator.c1);  // any will do
  alone.client.lr = job.client.lr;
  alone.run.seed = job.run.seed;
  return make_rule_of_kind(alone, 1, 1)->needs();
}

std::string key_of(const Fact& fact, const JobFacts& facts) {
  return fact.key_in != nullptr ? fact.key_in(facts) : fact.key;
}

std::string key_of(const Conflict& conflict, const JobFacts& facts) {
  return conflict.key != nullptr ? conflict.key : key_of(*conflict.other, facts);
}

// Fills in what stands in braces: `key`, the detail of `fact` and values of options.
std::string told(std::string text, const std::string& key, const Fact& fact,
                 const JobFacts& facts) {
  KeyedJob values(kind_families());
  static_cast<Job&>(values) = facts.job;
  for (std::size_t begin = 0; (begin = text.find('{', begin)) != std::string::npos;) {
    const std::size_t end = text.find('}', begin);
    const std::string name = text.substr(begin + 1, end - begin - 1);
    const std::string value = name == "key"      ? key
                              : name == "detail" ? fact.detail(facts)
                                                 : values.table.at(name).format();
    text.replace(begin, end - begin + 1, value);
    begin += value.size();
  }
  return text;
}

}  // namespace

bool JobFacts::keeps_state() const {
  return update.keeps || job.client.keeps_tensors() || keeps_moments(job.client);
}

bool JobFacts::trains_side_by_side() const {
  if (job.simulate.is_on()) return false;
  if (rule.rates) return true;
  return !update.solves && !update.one_by_one;
}

JobFacts facts_of(const Job& job, const std::optional<AggregatorNeeds>& rule) {
  const ForgeNeeds attack = job.attack.is_on() ? forge_needs(job) : ForgeNeeds{};
  return {.job = job,
          .rule = needs_among(rule ? *rule : needs_of_kind(job), attack),
          .sampler = sampler_traits(job.sampler),
          .update = update_traits(job.client),
          .attack = attack};
}

std::span<const ConflictGroup> conflict_groups() {
  static const std::vector<ConflictGroup> groups{{"Rules and attacks", conflicts_of_rules()},
                                                 {"Privacy", conflicts_of_privacy()},
                                                 {"Samples and labels", conflicts_of_samples()},
                                                 {"Updates of clients", conflicts_of_updates()},
                                                 {"Clusters", conflicts_of_clusters()},
                                                 {"Time", conflicts_of_time()},
                                                 {"Rounds", conflicts_of_rounds()},
                                                 {"Adapters", conflicts_of_adapters()}};
  return groups;
}

std::span<const Conflict> conflicts() {
  static const std::vector<Conflict> all = [] {
    std::vector<Conflict> rows;
    for (const ConflictGroup& group : conflict_groups()) {
      rows.insert(rows.end(), group.rows.begin(), group.rows.end());
    }
    return rows;
  }();
  return all;
}

std::optional<Refusal> conflict_of(const JobFacts& facts) {
  for (const Conflict& conflict : conflicts()) {
    if (!conflict.one->holds(facts) || !conflict.other->holds(facts)) continue;
    const std::string key = key_of(conflict, facts);
    return Refusal{told(conflict.what, key, *conflict.other, facts), key,
                   told(conflict.hint, key, *conflict.other, facts)};
  }
  return std::nullopt;
}

void require_no_conflict(const JobFacts& facts) {
  const auto found = conflict_of(facts);
  if (found) throw InvalidArgument(found->what, found->key, found->hint);
}

std::string why_one_by_one(const JobFacts& facts) {
  for (const auto& [fact, why] : one_by_one_facts()) {
    if (!fact->holds(facts)) continue;
    const std::string key = key_of(*fact, facts);
    return fmt::format("{} ({})", told(why, key, *fact, facts), key);
  }
  return "";
}

}  // namespace hanse
