// Estimates a job's needs on given machines before it runs.
#pragma once

#include <string>

#include "hanse/base/options.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// The machines of a planned run, as the command line gives them.
struct PlanOptions {
  int64_t ranks = 0;       // 0: the started ranks
  int64_t hosts = 0;       // 0: the started ones; with `ranks`, so many that each rank has its
                           // cores
  double cores = 0;        // of a host, for ranks; 0: those of the started ranks
  double link_gbit = 0;    // Gbit/s of a host's link, each way; 0: measured between hosts, or 10
  double latency_us = -1;  // of a message between hosts; negative: measured, or 20
  bool json = false;       // one JSON object in the place of lines
  bool advise = false;     // many numbers of ranks side by side, and which to take
};

// Names "ranks", "hosts", "cores", "link-gbit" and "latency-us"; `options` must outlive the table.
void bind_plan(OptionTable& table, PlanOptions& options);

// Memory a rank, bytes and messages a round, and the times of a round and of the run. Bytes and
// memory are the protocol's own footprint. Times come from a protocol assembled as for the run,
// which makes rounds on the started ranks for two seconds, and are scaled to the given machines by
// what they have to do; where a round is too long, from some clients alone. All of it takes about
// five seconds and a run's memory; what was trained is dropped, and nothing is written. Advice
// tries many numbers of ranks with the rates of that one measurement.
// Collective; the text is rank 0's.
// Throws AgreedError: what hanse run would refuse before its first round, a job for GPUs alone,
// more hosts than ranks, and advice for online federation, for bandits or on given ranks.
std::string plan_job(const std::string& job_file, const Overrides& overrides,
                     const PlanOptions& options, Communicator& comm);

}  // namespace hanse
