// What a LocalUpdate does with one client after the other, for a cohort on a device.
#pragma once

#include <span>
#include <vector>

#include "hanse/client/cohort_training.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/side_by_side.hpp"

namespace hanse {

// The steps are those of CohortTraining; what stands before and behind them, states and control
// variates, is the update's own code in the host's memory, to which rows go only where a pass says
// so: up to 3 C P floats each way.
class CohortUpdate {
 public:
  // `update` and `cohorts` must outlive the object; the options behind them are the same.
  // REQUIRES: update.side_by_side().
  CohortUpdate(LocalUpdate& update, CohortTraining& cohorts, int64_t n_params);

  // As update.train() of each task, from `received` [P], which is the cohort's theta(), too. Of a
  // task all but its row counts; the rows stay on the device. REQUIRES: 1 to C tasks.
  std::vector<ClientOutcome> train(std::span<const ClientTask> tasks,
                                   std::span<const float> received);

 private:
  std::vector<ClientOutcome> run(std::size_t pass, std::span<const ClientTask> tasks,
                                 std::span<const float> received);

  SideBySide& update_;
  CohortTraining& cohorts_;
  std::vector<CohortPass> passes_;
  std::size_t n_params_;
  std::vector<float> rows_, starts_, pulls_;  // [C, P], where a pass needs them
};

}  // namespace hanse
