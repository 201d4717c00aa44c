// The tree along which long messages travel between a root and all ranks. Private to comm/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

struct TreePlace {
  int parent = -1;            // -1: this rank is the root
  std::vector<int> children;  // those on other hosts first
};

// Where `rank` stands. `hosts[r]`: a number that rank r shares with the ranks of its host alone.
// One rank of each host is linked to other hosts, so that a message enters and leaves a host's
// network link once: in a chain, which takes a host's link for the time of one message and then a
// chunk's time a host, or, when the hosts outnumber the `chunks` of the message, in a binary tree,
// which takes it twice and then a chunk's time a level. The ranks of one host are a binary tree.
TreePlace place_in_tree(int rank, int root, std::span<const int> hosts, int64_t chunks);

}  // namespace hanse
