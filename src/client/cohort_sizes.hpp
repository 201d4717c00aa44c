// The sizes of the steps of clients side by side, and the moments that they keep.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "hanse/client/movement.hpp"
#include "hanse/client/schedule.hpp"
#include "hanse/model/cohort.hpp"
#include "optimizer.hpp"

namespace hanse {

// HostPasses has the same of one client after the other.
class CohortSizes {
 public:
  CohortSizes(const StepOptions& options, int64_t places)
      : schedule_(options),
        stepping_(options),
        accumulate_(options.accumulate),
        keeps_(keeps_moments(options)),
        rounds_(static_cast<std::size_t>(places)),
        ages_(rounds_.size()),
        gathered_(rounds_.size()) {}

  // From the next start on steps move what it says.
  void move_by(const Movement& movement) { movement_ = movement; }
  // Starts tasks, whose moments have `width` values. Returns the moments [tasks, width] that stand
  // in front of their states, where clients keep them, else nothing.
  std::span<const float> start(std::span<const ClientTask> tasks, int64_t width);
  // The size of the step that ends with a place's mini-batch, of so many samples; scale 0: no step
  // ends there. `unit`: BatchStream's.
  struct Progress {
    int64_t done, all, unit;  // mini-batches
  };
  StepSize next(std::size_t place, const Progress& progress, int64_t samples);
  // Puts the moments that the steps have left, and their ages, into the tasks' states. Waits for
  // the device where clients keep them.
  void finish(std::span<const ClientTask> tasks, const Cohort& cohort);

 private:
  Schedule schedule_;
  Stepping stepping_;
  int64_t accumulate_;  // mini-batches of a step
  bool keeps_;
  Movement movement_;
  std::vector<PhaseWalk> walks_;   // [tasks]
  std::vector<int64_t> rounds_;    // [C]
  std::vector<int64_t> ages_;      // [C] steps that the moments have seen
  std::vector<int64_t> gathered_;  // [C] samples since the last step
  std::vector<float> moments_;     // [tasks, width], where clients keep them
};

}  // namespace hanse
