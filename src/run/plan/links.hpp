// How fast the started ranks send to each other, and how fast their memory is.
#pragma once

#include "cost.hpp"

namespace hanse {

// Between the hosts when there are several, else between the ranks of the host; rates 0: there is
// one rank. Sends rows of `n_params` values there and back for about a second. Collective.
Link measure_link(const Cluster& started, int64_t n_params, Communicator& comm);

// Seconds of a byte: copied from a row of `n_params` values to another, and added to one of int64.
void measure_memory_speed(int64_t n_params, double& copy_s, double& add_s);

}  // namespace hanse
