// The trees along which long messages travel between a root and all ranks; and machines that ranks
// lie on, with how long messages take between them: estimates for `hanse plan` and for simulated
// runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/comm/communicator.hpp"

namespace hanse {

struct TreePlace {
  int parent = -1;                // -1: this rank is the root
  bool parent_elsewhere = false;  // on another host
  std::vector<int> children;      // those on other hosts first
};

// Where `rank` stands. `hosts[r]` is a number that the ranks of rank r's host alone share. One rank
// of each host is linked to other hosts, so that a message enters and leaves a host's network link
// once. They are a chain, which takes a host's link for the time of one message and a chunk's time
// a host, or, when the hosts outnumber the `chunks` of the message, a binary tree, which takes it
// twice and a chunk's time a level. The ranks of one host are a binary tree.
TreePlace place_in_tree(int rank, int root, std::span<const int> hosts, int64_t chunks);

// The shape by which estimates know how long a message takes.
struct TreeShape {
  double copies = 0;  // of a message on the busiest link, each way
  double levels = 0;  // below the root
};

// The tree of one rank of each host, for messages of so many chunks.
TreeShape tree_between_hosts(int64_t hosts, int64_t chunks);
// The tree of the ranks of one host.
TreeShape tree_within_host(int64_t ranks);

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

// Many ranks on few cores, as if each had the machine that a job declares.
// Every operation takes place over `inner`, which must outlive the object, and takes the simulated
// time that it would take on the `cluster`: all ranks of a collective go on when the latest of them
// has come and the messages have arrived. Bytes, results and hosts are those of `inner`, so that
// ranks share data where they can; the cluster's hosts serve estimates alone. Each collective costs
// a further all-reduce of two numbers. REQUIRES: a SimulatedTime; cluster.ranks is inner.size().
std::unique_ptr<Communicator> make_simulated_communicator(Communicator& inner,
                                                          const Cluster& cluster);

}  // namespace hanse
