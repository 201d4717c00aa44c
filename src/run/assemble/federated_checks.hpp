// What the parts of a federated job ask of each other. Each throws InvalidArgument where they do
// not go together.
#pragma once

#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/job/job.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// Clients that send gradients, and rules that mix after the training, know nothing of buffers.
void check_buffers(const Job& job, const ParameterLayout& layout, bool gradients_count);
// A round with a time limit reports nothing of those it leaves out.
void check_time_limit(const Job& job, const LocalUpdate& update, const AggregatorNeeds& needs,
                      const ParameterLayout& layout);
// The sampler may need what the loss of each sample is.
void check_squares(const Job& job, const LocalUpdate& update);
void check_view(const Job& job, const LocalUpdate& update);
// The rule needs no more than the job's rounds give.
void check_rule(const Job& job, const AggregatorNeeds& needs);
// The server can train on samples of its own: those of a client that is kept out of training.
void check_root(const Job& job, const Federation& federation, const LocalUpdate& update);

// What memory and work of rank 0 follow from.
struct MemoryCase {
  const Job& job;
  const Communicator& comm;
  const Federation& federation;
  const ParameterLayout& layout;
  const AggregatorNeeds& needs;
  int64_t participants;  // of a round
  bool tunes;            // before clients are evaluated
};
// Throws InvalidArgument where this rank has no room for the model's rows, or rank 0 for the rule's
// numbers of each pair of participants or for the scores of the clients.
void check_memory(const MemoryCase& c);
// Says where the rule's work on each pair of updates will outweigh the training; or nothing.
std::string pairs_notice(const MemoryCase& c);

}  // namespace hanse
