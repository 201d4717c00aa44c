// An aggregator's row: what else it brings into a job than its rule.
#pragma once

#include <memory>
#include <string>

#include "hanse/client/local_update.hpp"
#include "hanse/job/aggregator_options.hpp"
#include "hanse/job/kind.hpp"
#include "hanse/kinds/aggregator_traits.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// What an aggregator is made from.
struct AggregatorCase {
  const AggregatorOptions& options;
  int64_t clients;
  double participation;  // share of clients in a round
  double client_lr;
};

using UpdateMaker = std::unique_ptr<LocalUpdate> (*)(const ClientOptions& options,
                                                     const Federation& federation, Model& model);

struct AggregatorKind {
  KindRow row;
  AggregatorTraits traits;
  std::unique_ptr<Aggregator> (*make)(const AggregatorCase&);
  UpdateMaker make_update = nullptr;  // of clients of its own; null: those of client.update
  // Changes what clients train; null: nothing.
  void (*instruct)(const AggregatorOptions& options, ClientOptions& client) = nullptr;
  std::string (*notice)(const Job& job) = nullptr;  // aggregator_notice(); null: none
};

// Throws InvalidArgument for an unknown kind.
const AggregatorKind& aggregator_kind(const AggregatorOptions& options);

}  // namespace hanse
