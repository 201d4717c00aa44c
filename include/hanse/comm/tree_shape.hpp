// The shape of the trees along which long messages travel, for estimates of how long they take.
#pragma once

#include <cstdint>

namespace hanse {

struct TreeShape {
  double copies = 0;  // of a message that the busiest link carries, each way
  double levels = 0;  // below the root
};

// Of one rank of each host, for messages of so many pieces.
TreeShape tree_between_hosts(int64_t hosts, int64_t chunks);
// Of the ranks of one host.
TreeShape tree_within_host(int64_t ranks);

}  // namespace hanse
