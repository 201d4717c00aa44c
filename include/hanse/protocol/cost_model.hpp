// What training a client costs, learnt from the rounds that were measured.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace hanse {

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

}  // namespace hanse
