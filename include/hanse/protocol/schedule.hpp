// Which rank trains which participant. Results do not depend on it; the length of a round does.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "hanse/client/local_update.hpp"

namespace hanse {

enum class ServerRole;  // server_optimizer.hpp

// Does rank 0 train clients beside serving? Alone it does; ServerRole::kAuto: on one host.
bool server_trains(ServerRole role, int64_t ranks, bool one_host);

// How a round's participants get to the ranks that train them.
enum class Dispatch {
  kPlanned,      // rank 0 says who trains whom
  kSharedQueue,  // ranks take the next participant from a counter in their host's memory
  kServedQueue   // ... from rank 0, which trains nobody
};

// `is_open`: does nothing depend on who trains whom?
Dispatch choose_dispatch(bool is_open, int64_t ranks, bool one_host, bool server_trains);

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

// What a client took in a round.
struct Measurement {
  int64_t client = 0;
  double units = 0;  // of work
  double seconds = 0;
  int64_t worker = 0;  // that trained it
};

// Predicts what a client costs, and how much longer it takes on which worker.
//
// A worker's slowness is learnt from its participants of a round: of the factor by which they took
// longer than predicted (geometric mean), the square root is taken for the worker's, at most 2 a
// round, and what is left for the clients'. A worker that trains nobody is believed less slow from
// round to round, until it is tried again. Without workers, seconds are the clients' alone.
class CostModel {
 public:
  explicit CostModel(int64_t workers = 0) : slowness_(static_cast<std::size_t>(workers), 1.0) {}

  bool has_measured() const { return units_ > 0; }
  // Seconds on a worker of slowness 1: as last measured; for a client never measured, those of the
  // line through all measurements (least squares), or of the mean seconds a unit where the line
  // falls or has a negative end. The units before there are any.
  double predict(int64_t client, double units) const;
  // [workers], for balance(): the median, and from there in steps of a quarter, so that small
  // differences between like workers, which are noise, send no client elsewhere.
  std::vector<double> slowness() const;
  // Of one round.
  void observe(std::span<const Measurement> round);

 private:
  void observe_workers(std::span<const Measurement> round);

  std::unordered_map<int64_t, double> seconds_of_;
  // Over all measurements: their number and sums, of squares and products too.
  double measured_ = 0, units_ = 0, seconds_ = 0, squared_units_ = 0, units_seconds_ = 0;
  std::vector<double> slowness_;  // [workers]
};

// Which participants of one rank count in a round with a time limit. They come in random order; who
// has not started when time is up is left out, and who has then not ended, but for the first.
//
// The others' sum times factor() has the sum over all for its mean: whatever the costs, those who
// end in time are in random order given the one in training when time is up, so that the first of
// them, which stands for all without bias, may be replaced by their mean.
class Deadline {
 public:
  // `limit_s` 0: no limit.
  explicit Deadline(double limit_s) : limit_s_(limit_s) {}
  // The next participant, or so many that train together, at this time of the round: does it start?
  bool starts(double elapsed_s, int64_t participants = 1);
  // It has ended at this time: does it count?
  bool counts(double elapsed_s);
  // All that came over those that count.
  double factor() const;

 private:
  bool is_up(double elapsed_s) const { return limit_s_ > 0 && elapsed_s >= limit_s_; }

  double limit_s_;
  int64_t next_ = 0;  // that came last
  int64_t came_ = 0;
  int64_t counted_ = 0;
};

// Cuts [0, sizes.size()) into `parts` contiguous ranges of about the same sum; returns the
// parts + 1 borders.
std::vector<int64_t> cut_evenly(std::span<const int64_t> sizes, int64_t parts);

}  // namespace hanse
