// How work of known costs is spread over workers.
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
// An item takes costs[i] slowness[w] on worker w; empty: all are 1. Items may lie with a worker
// already: `homes[i]` is that, or -1; empty: none does. An item leaves its home only where it ends
// earlier in spite of `move`, the cost of going there. Where none has a home, the worker that ends
// last gives an item away or swaps it while one ends earlier by that, so many times at most that it
// takes tens of microseconds.
std::vector<int64_t> balance(std::span<const double> costs, int64_t workers,
                             std::span<const int64_t> homes = {}, double move = 0,
                             std::span<const double> slowness = {});

// Positions by the time when each begins, on workers that take theirs longest first; of those that
// begin together the longest comes first. Free workers that take the next of this order have about
// what balance() gave them, whoever of them is a little faster.
std::vector<int64_t> by_start(std::span<const double> costs, std::span<const int64_t> worker_of);

// balance() of whole groups, each of so many neighbours in the draw (the last of what is left): the
// worker of each item. REQUIRES: group >= 1.
std::vector<int64_t> balance_groups(std::span<const double> costs, int64_t group, int64_t workers,
                                    std::span<const double> slowness = {});

// How many participants a worker should take at once, so that asking for more costs little beside
// training: those of about 10 ms, but at least four pieces a worker, and 1 unless the costs are
// `seconds`.
int64_t piece_length(std::span<const double> costs, bool seconds, int64_t workers);

// Cuts [0, sizes.size()) into `parts` contiguous ranges of about the same sum; returns the
// parts + 1 borders.
std::vector<int64_t> cut_evenly(std::span<const int64_t> sizes, int64_t parts);

}  // namespace hanse
