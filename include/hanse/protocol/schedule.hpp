// Which rank trains which participant. Results do not depend on it; the length of a round does.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace hanse {

// Positions of `costs` by falling cost; equal costs by position.
std::vector<int64_t> longest_first(std::span<const double> costs);

// Gives each item, longest first, to the least loaded worker (Graham 1969: within 4/3 of the
// optimum). Returns the worker of each item. Cost O(n log n + n log workers).
//
// Items may lie with a worker already: `homes[i]` is that, or -1; empty: none does. An item leaves
// its home only where it ends earlier in spite of `move`, the cost of going there.
std::vector<int64_t> balance(std::span<const double> costs, int64_t workers,
                             std::span<const int64_t> homes = {}, double move = 0);

// Positions of `costs` as they are: cohorts are made of neighbours in the draw.
std::vector<int64_t> draw_order(std::span<const double> costs);

// balance() of whole cohorts, each of so many neighbours (the last of what is left): the worker of
// each item. REQUIRES: cohort >= 1.
std::vector<int64_t> balance_cohorts(std::span<const double> costs, int64_t cohort,
                                     int64_t workers);

// How many participants a worker should take at once, so that asking for more costs little beside
// training: those of about 10 ms, but at least four pieces a worker, and 1 unless the costs are
// `seconds`.
int64_t piece_length(std::span<const double> costs, bool seconds, int64_t workers);

// Predicts what a client costs: its last measured seconds; for a client never measured, its work
// units times the mean seconds a unit of all measurements.
class CostModel {
 public:
  bool has_measured() const { return units_ > 0; }
  double predict(int64_t client, double units) const;
  void observe(int64_t client, double units, double seconds);

 private:
  std::unordered_map<int64_t, double> seconds_of_;
  double units_ = 0;
  double seconds_ = 0;
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
  // The next participant, at this time of the round: does it start?
  bool starts(double elapsed_s);
  // It has ended at this time: does it count?
  bool counts(double elapsed_s);
  // All that came over those that count.
  double factor() const;

 private:
  bool is_up(double elapsed_s) const { return limit_s_ > 0 && elapsed_s >= limit_s_; }

  double limit_s_;
  int64_t came_ = 0;
  int64_t counted_ = 0;
};

// Cuts [0, sizes.size()) into `parts` contiguous ranges of about the same sum; returns the
// parts + 1 borders.
std::vector<int64_t> cut_evenly(std::span<const int64_t> sizes, int64_t parts);

}  // namespace hanse
