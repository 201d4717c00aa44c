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
  bool scaled_draws = false;  // a draw counts as one of uniform draws where a trace has no weights
  // Changes the clients' training options; null: nothing.
  void (*instruct)(const AggregatorOptions& options, ClientOptions& client) = nullptr;
};

// Throws InvalidArgument for an unknown kind.
const AggregatorTraits& aggregator_traits(const AggregatorOptions& options);

// `participation` is the share of clients in a round, in (0, 1]. Throws InvalidArgument when
// options and clients do not fit together.
std::unique_ptr<Aggregator> make_aggregator(const Job& job, int64_t clients, double participation);

// Throws InvalidArgument when the rule cannot weigh so few participants of `clients` in all, unless
// such rounds are skipped.
void require_participants(const Job& job, int64_t clients, int64_t participants);

// A line for the user about the rule in this job; empty: nothing.
std::string aggregator_notice(const Job& job);

}  // namespace hanse
