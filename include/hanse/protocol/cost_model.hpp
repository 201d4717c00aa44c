// The cost of training a client, learnt from measured rounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

// A client's cost in a round.
struct Measurement {
  int64_t client = 0;
  double units = 0;  // of work
  double seconds = 0;
  int64_t worker = 0;  // trained it
};

// Predicts the cost of a client, and how much longer it takes on which worker.
//
// A worker's slowness is learnt from its participants of a round: the factor by which they took
// longer than predicted (geometric mean) is split; its square root, at most 2 a round, counts for
// the worker, the rest for the clients. A worker that trains nobody is believed less slow from
// round to round, until it is tried again. Without workers, seconds are the clients' alone.
class CostModel {
 public:
  explicit CostModel(int64_t workers = 0) : slowness_(static_cast<std::size_t>(workers), 1.0) {}

  bool has_measured() const { return units_ > 0; }
  // Seconds on a worker of slowness 1: as last measured; a client never measured gets those of the
  // line through all measurements (least squares), or the mean seconds a unit where the line falls
  // or has a negative end. Before any measurement, the units.
  double predict(int64_t client, double units) const;
  // [workers], for balance(): the median, and from there in steps of a quarter, so that small
  // differences between like workers, which are noise, send no client elsewhere.
  std::vector<double> slowness() const;
  // Learns from one round.
  void observe(std::span<const Measurement> round);

 private:
  void observe_workers(std::span<const Measurement> round);

  double known_seconds(int64_t client) const;  // below 0: never measured

  std::vector<float> seconds_of_;  // by client, as far as the last one measured; below 0: unknown
  // Over all measurements: their number, sums, sums of squares and of products.
  double measured_ = 0, units_ = 0, seconds_ = 0, squared_units_ = 0, units_seconds_ = 0;
  std::vector<double> slowness_;  // [workers]
};

}  // namespace hanse
