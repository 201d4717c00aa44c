// Makes aggregators by the names of a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

struct AggregatorOptions;
struct ClientOptions;
struct Job;

// A job's knowledge of an aggregator before it is made.
struct AggregatorTraits {
  bool plain_mean = false;    // weights clients by their shares alone
  bool lowers = false;        // lowers every loss by plain gradients
  bool scaled_draws = false;  // a draw counts as one of uniform draws where a trace has no weights
  // Changes the clients' training options; null: nothing.
  void (*instruct)(const AggregatorOptions& options, ClientOptions& client) = nullptr;
};

// Throws InvalidArgument for an unknown kind.
const AggregatorTraits& aggregator_traits(const AggregatorOptions& options);

// The rule of the job's kind for so many clients, of whom a share `participation`, in (0, 1], takes
// part in a round. Throws InvalidArgument when its options do not fit together.
std::unique_ptr<Aggregator> make_rule_of_kind(const Job& job, int64_t clients,
                                              double participation);

// The same, which require_attendance() has let pass.
std::unique_ptr<Aggregator> make_aggregator(const Job& job, int64_t clients, double participation);

// Throws InvalidArgument when the rule cannot weigh so few participants of `clients` in all, unless
// such rounds are skipped.
void require_participants(const Job& job, int64_t clients, int64_t participants);

// Throws InvalidArgument where a rule of these needs wants clients that stay away.
void require_attendance(const Job& job, const AggregatorNeeds& needs, double participation);

// A line for the user about the rule in this job; empty: nothing.
std::string aggregator_notice(const Job& job);

}  // namespace hanse
