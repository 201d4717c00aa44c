// A LocalUpdate for a cohort on a device, in place of one client after the other.
#pragma once

#include <span>
#include <vector>

#include "hanse/client/cohort_training.hpp"
#include "hanse/client/local_update.hpp"

namespace hanse {

class CohortUpdate {
 public:
  virtual ~CohortUpdate() = default;
  // Does it read `received`? Otherwise the device alone has to have it.
  virtual bool reads_received() const = 0;
  // Acts as update.train() for each task, from `received` [P], which is the cohort's theta(), too.
  // It ignores the tasks' rows: rows stay on the device, and so do the losses, without which the
  // outcomes are not finished. REQUIRES: 1 to C tasks.
  virtual std::vector<ClientOutcome> train(std::span<const ClientTask> tasks,
                                           std::span<const float> received) = 0;
  // Completes those outcomes by Cohort::losses() [C], which come with other data that the host
  // waits for. `received` as before; the cohort's rows stay.
  virtual void finish(std::span<const double> losses, std::span<const float> received,
                      std::span<ClientOutcome> outcomes) = 0;
  // [P] origin of the cohort's rows: theta(), or undefined where they are the updates.
  virtual const at::Tensor& origin() = 0;
};

}  // namespace hanse
