// How work whose costs are known is spread over workers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

// Positions of `costs` by falling cost; equal costs by position.
std::vector<int64_t> longest_first(std::span<const double> costs);

// Gives each item, longest first, to the worker where it ends first (Graham 1969: within 4/3 of the
// optimum when all are as fast; Gonzalez, Ibarra and Sahni 1977: within 2 when not). Returns the
// worker of each item. Cost O(n log n + n s log workers), s the number of different speeds.
//
// An item takes costs[i] slowness[w] on worker w; empty: all are 1. `homes[i]` is the worker where
// item i lies already, or -1; empty: no item has one. An item leaves its home only where it ends
// earlier in spite of `move`, the cost of going there. Where none has a home, the worker that ends
// last gives an item away or swaps it while the later of both ends earlier by that, within a limit
// that takes tens of microseconds.
std::vector<int64_t> balance(std::span<const double> costs, int64_t workers,
                             std::span<const int64_t> homes = {}, double move = 0,
                             std::span<const double> slowness = {});

// Positions by the time when each begins, on workers that take their items longest first; of those
// that begin together the longest comes first. Free workers that take the next item of this order
// have about what balance() gave them, although one may be a little faster.
std::vector<int64_t> by_start(std::span<const double> costs, std::span<const int64_t> worker_of);

// As balance(), for whole groups of so many neighbours in the draw (the last may be smaller): the
// worker of each item. REQUIRES: group >= 1.
std::vector<int64_t> balance_groups(std::span<const double> costs, int64_t group, int64_t workers,
                                    std::span<const double> slowness = {});

// How many participants a worker should take at once, so that asking for more costs little beside
// training: about 10 ms of them, but at least four pieces a worker, and 1 unless costs are
// `seconds`.
int64_t piece_length(std::span<const double> costs, bool seconds, int64_t workers);

// Cuts [0, sizes.size()) into `parts` contiguous ranges of about the same sum; returns the
// parts + 1 borders.
std::vector<int64_t> cut_evenly(std::span<const int64_t> sizes, int64_t parts);

}  // namespace hanse
