// What goes with what: the facts that a job's options make true, and the pairs of facts that cannot
// stand together. Nothing here reads data, files or models.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/protocol/attackers.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

struct Job;

// What the parts of a job's rounds are and need.
struct JobFacts {
  const Job& job;
  AggregatorNeeds rule;  // of the job's aggregator, among its attackers
  SamplerTraits sampler;
  UpdateTraits update;
  ForgeNeeds attack;

  // What LocalUpdate says of the update that the job's options make.
  bool sends_directions() const { return update.solves || rule.rates; }
  bool keeps_state() const;
  bool finds_squares() const { return !update.solves || rule.rates; }
  bool trains_side_by_side() const;
};

// `rule`: the needs of the rule that the job has made; nothing: those of its kind, and of a rule in
// a file of the user's own none, which only the file tells. Throws InvalidArgument for unknown
// kinds. REQUIRES: the job is of rounds, and outlives the facts.
JobFacts facts_of(const Job& job, const std::optional<AggregatorNeeds>& rule = std::nullopt);

// Something that the options of a job make true.
struct Fact {
  const char* name;  // "asynchronous rounds"
  const char* key;   // the option that makes it so
  bool (*holds)(const JobFacts& facts);
  // The key, where it differs between jobs; null: `key`.
  std::string (*key_in)(const JobFacts& facts) = nullptr;
  // A text for the message; null: none.
  std::string (*detail)(const JobFacts& facts) = nullptr;
};

// Two facts that cannot both be true. The message tells the user to change `other`.
struct Conflict {
  const Fact* one;
  const Fact* other;
  // In both texts {KEY} is the value of an option, {key} the key that is to change, and {detail}
  // the detail of `other`.
  const char* what;
  const char* hint = "";
  const char* key = nullptr;  // the key that is to change; null: that of `other`
};

// All pairs, in the order in which a job is asked; and as one reads them.
std::span<const Conflict> conflicts();
struct ConflictGroup {
  const char* title;
  std::span<const Conflict> rows;
};
std::span<const ConflictGroup> conflict_groups();

// What cannot be, the option to change, and how.
struct Refusal {
  std::string what, key, hint;
};

// The first conflict that holds; empty: there is none. Cost: microseconds, or a millisecond for the
// words of a conflict.
std::optional<Refusal> conflict_of(const JobFacts& facts);

// Throws InvalidArgument with the words of conflict_of(facts), if there is one.
void require_no_conflict(const JobFacts& facts);

// What cohorts on GPUs cannot do: with such a fact a GPU trains one client after the other.
struct OneByOne {
  const Fact* fact;
  const char* why;  // {KEY} as in Conflict
};
std::span<const OneByOne> one_by_one_facts();

// Why clients cannot be trained side by side, by the first such fact that holds: "robust rules look
// at updates in the hosts' memory (aggregator.kind)"; empty: they can.
std::string why_one_by_one(const JobFacts& facts);

}  // namespace hanse
