// The machines that a plan is for, and how long work and messages take on them.
//
// What travels along which tree comes from the code that sends (tree_shape.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/run/plan.hpp"
#include "sheet.hpp"

namespace hanse {

struct Job;

inline double number(int64_t n) { return static_cast<double>(n); }

struct Link {
  double latency_s = 0;  // of a message of a few bytes
  double rate = 0;       // bytes a second, each way
};

struct Cluster {
  int64_t ranks = 1;
  int64_t hosts = 1;       // ranks lie on them in blocks
  double cores = 1;        // of a host, for ranks
  int64_t threads = 1;     // of a rank
  bool dedicated = false;  // rank 0 trains nobody
  Link network;            // of a host, each way
  Link memory;             // between the ranks of a host

  int64_t workers() const { return dedicated ? ranks - 1 : ranks; }
  int64_t host_of(int64_t rank) const { return rank * hosts / ranks; }
  int64_t ranks_a_host() const { return (ranks + hosts - 1) / hosts; }  // the most
  // Ranks of a host that can work at full speed at once; may be a fraction.
  double slots() const { return cores / number(threads); }
};

inline constexpr double kPieceBytes = Communicator::kPieceBytes;

// Seconds from the start until `bytes` of rank 0 stand on all ranks, or until the sum over all
// ranks stands on rank 0. Between hosts, one rank of each: a chain, or where hosts outnumber the
// pieces a binary tree, which sends everything twice; within a host a binary tree. The wire's time
// is that of the slowest part, the memory's at least, and each further level adds a piece's.
double transfer_s(const Cluster& cluster, double bytes);

// Seconds until a sum has come to rank 0, has been worked on there for `step_s`, and what came of
// it stands on all ranks. Parts of it go down while others come up: between hosts the two
// directions of a link work at once, within a host the same cores do all of it.
double exchange_s(const Cluster& cluster, double up_bytes, double down_bytes, double step_s);

// Seconds of a collective operation of a few bytes: a binomial tree.
double small_s(const Cluster& cluster);

// How much of `loads` [ranks] the busiest rank works off, one after another, until the last host is
// done. A host with more ranks than cores works at the speed of all its cores.
double busiest(const Cluster& cluster, std::span<const double> loads);

// Loads of the ranks when costs[i] falls to worker_of[i].
std::vector<double> loads_of(const Cluster& cluster, std::span<const double> costs,
                             std::span<const int64_t> worker_of);

// The same of `seconds` of work in `items` equal parts, which `workers` ranks share.
double shared_s(const Cluster& cluster, double seconds, int64_t items, int64_t workers);

// What was measured of the machines that the plan is started on.
struct MachineSpeeds {
  double add_s = 0;  // a byte of int64 in memory, added to another
  Link link;         // between the started ranks; rate 0: there is one
};

// What a plan is made for.
struct PlanCase {
  const PlanOptions& options;
  const Job& job;
  Communicator& comm;
  double start_bytes = 0;  // resident before the job's objects were made
  double load_bytes = 0;  // the most resident meanwhile: reading data may take more than keeping it
  Cluster started = {};
  Cluster planned = {};  // links are not set
};

// The ranks of `comm` on their hosts. Collective.
Cluster started_cluster(const Job& job, Communicator& comm, Communicator& host);

// Throws InvalidArgument when there are more hosts than ranks.
Cluster planned_cluster(const PlanOptions& options, const Job& job, const Cluster& started);

// Sets the links: given, measured between as many hosts, or assumed; between the ranks of a host
// measured, or two passes through its memory. Returns which it is: "given", "measured", "assumed".
std::string set_links(const PlanOptions& options, const MachineSpeeds& speeds,
                      const Cluster& started, Cluster& planned);

void describe(const Cluster& cluster, const std::string& source, PlanSheet& sheet);

}  // namespace hanse
