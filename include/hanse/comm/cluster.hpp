// Machines that ranks lie on, and how long messages take between them: estimates for `hanse plan`
// and for simulated runs. tree_shape.hpp, by which messages are sent, gives the trees.
#pragma once

#include <cstdint>

#include "hanse/comm/communicator.hpp"

namespace hanse {

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
  double slots() const { return cores / static_cast<double>(threads); }
};

inline constexpr double kPieceBytes = Communicator::kPieceBytes;

// The bytes a second of a link of so many Gbit/s.
inline double bytes_a_second(double gbit) { return gbit * 1e9 / 8; }

// Seconds from the start until `bytes` of rank 0 stand on all ranks, or until the sum over all
// ranks stands on rank 0. One rank of each host takes part between hosts: in a chain or, where
// hosts outnumber the pieces, in a binary tree, which sends everything twice; the ranks of a host
// are a binary tree. The slowest part sets the wire's time, at least the memory's; each further
// level adds the time of a piece.
double transfer_s(const Cluster& cluster, double bytes);

// Bytes of such a message that the busiest host's link carries, each way: once, or twice where the
// hosts are a tree, whatever the number of their ranks. 0 on one host.
double link_bytes(const Cluster& cluster, double bytes);

// Seconds until a sum has come to rank 0, rank 0 has worked on it for `step_s`, and the result
// stands on all ranks. Parts of it go down while others come up: between hosts the two directions
// of a link work at once, within a host the same cores do both.
double exchange_s(const Cluster& cluster, double up_bytes, double down_bytes, double step_s);

// Seconds of a collective operation of a few bytes: a binomial tree.
double small_s(const Cluster& cluster);

// Seconds of a collective operation of `bytes`, however MPI sends them.
double collective_s(const Cluster& cluster, double bytes);

}  // namespace hanse
