// What a federated job asks of its clients, its model and the memory. Each throws InvalidArgument
// where they do not give it.
#pragma once

#include "hanse/data/federation.hpp"
#include "hanse/job/job.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// Clients that send gradients, and rules that mix after the training, know nothing of buffers.
void check_buffers(const Job& job, const ParameterLayout& layout, bool gradients_count);
// A round with a time limit reports nothing of those it leaves out.
void check_time_limit(const Job& job, const ParameterLayout& layout);
// The server can train on samples of its own: those of a client that is kept out of training.
void check_root(const Job& job, const Federation& federation);
// The share of clients in a round of `most` participants at most; where their number varies, the
// expected one.
double participation_of(const Job& job, int64_t most, int64_t clients);
// What depends on the number of clients: who attacks, who takes part, and the tasks in flight.
void check_clients(const Job& job, int64_t clients);

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
