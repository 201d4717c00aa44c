// What a round costs on given machines: the model behind `hanse plan`.
//
// A round is: the participants' training on the busiest host; the sum up, the server's step and the
// model down, which overlap; and some collectives of a few bytes. What the ranks do is taken from
// the code that does it (schedule.hpp, tree_shape.hpp); the rates come from measure.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/comm/communicator.hpp"

namespace hanse {

struct Link {
  double latency_s = 0;  // of a message of a few bytes
  double down = 0;       // bytes a second of a broadcast
  double up = 0;         // bytes a second of a sum; each rank adds what comes
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
  double slots() const { return cores / static_cast<double>(threads); }
};

inline double number(int64_t n) { return static_cast<double>(n); }

inline constexpr double kPieceBytes = Communicator::kPieceBytes;

// Seconds from the start until `bytes` of rank 0 stand on all ranks, or until the sum over all
// ranks stands on rank 0. Between hosts, one rank of each: a chain, or where hosts outnumber the
// pieces a binary tree, which sends everything twice; within a host a binary tree. The wire's time
// is that of the slowest part, and each further level adds a piece's.
double broadcast_s(const Cluster& cluster, double bytes);
double sum_s(const Cluster& cluster, double bytes);

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

}  // namespace hanse
