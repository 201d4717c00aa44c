// The tree along which long messages travel between a root and all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace hanse
