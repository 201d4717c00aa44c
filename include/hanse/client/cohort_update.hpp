// What a LocalUpdate does with one client after the other, for a cohort on a device.
#pragma once

#include <span>
#include <vector>

#include "hanse/client/cohort_training.hpp"
#include "hanse/client/local_update.hpp"

namespace hanse {

class CohortUpdate {
 public:
  virtual ~CohortUpdate() = default;
  // As update.train() of each task, from `received` [P], which is the cohort's theta(), too. Of a
  // task all but its row counts; the rows stay on the device, and so do the losses, without which
  // the outcomes are not finished. REQUIRES: 1 to C tasks.
  virtual std::vector<ClientOutcome> train(std::span<const ClientTask> tasks,
                                           std::span<const float> received) = 0;
  // What is missing in those outcomes, by Cohort::losses() [C]: they come with what else the host
  // waits for. `received` as before; the cohort's rows stay.
  virtual void finish(std::span<const double> losses, std::span<const float> received,
                      std::span<ClientOutcome> outcomes) = 0;
  // [P] what the cohort's rows are then measured from: theta(), or undefined where the rows are the
  // updates themselves.
  virtual const at::Tensor& origin() = 0;
};

}  // namespace hanse
