// What a LocalUpdate does with one client after the other, for a cohort on a device.
#pragma once

#include <span>
#include <vector>

#include "hanse/client/cohort_training.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/side_by_side.hpp"

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

// Of an update in parts. The steps are those of CohortTraining; what stands before and behind them,
// states and control variates, is the update's own code in the host's memory, to which rows go only
// where a pass says so: up to 3 C P floats each way.
class CohortPasses final : public CohortUpdate {
 public:
  // `update` and `cohorts` must outlive the object; the options behind them are the same.
  CohortPasses(SideBySide& update, CohortTraining& cohorts, int64_t n_params);

  std::vector<ClientOutcome> train(std::span<const ClientTask> tasks,
                                   std::span<const float> received) override;
  void finish(std::span<const double> losses, std::span<const float> received,
              std::span<ClientOutcome> outcomes) override;
  const at::Tensor& origin() override { return cohorts_.cohort().theta(); }

 private:
  std::vector<ClientOutcome> run(std::size_t pass, std::span<const ClientTask> tasks,
                                 std::span<const float> received);

  SideBySide& update_;
  CohortTraining& cohorts_;
  std::vector<CohortPass> passes_;
  std::size_t n_params_;
  std::vector<float> rows_, starts_, pulls_;  // [C, P], where a pass needs them
  std::vector<ClientOutcome> before_;         // of the passes before the last one; their losses
};

}  // namespace hanse
