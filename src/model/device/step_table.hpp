// What the steps of a cohort get from the host, in one upload for many of them.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/ATen.h>

#include "hanse/model/cohort.hpp"

namespace hanse {

// The chosen step's part stands at the same addresses for every step, so that kernels can be
// recorded once.
class StepTable {
 public:
  // `noise`: CohortNoise::numbers(); `augments`: with room for CohortSteps::changes.
  StepTable(int64_t clients, int64_t batch, int64_t noise, const at::Device& device,
            bool augments = false);

  // drawn [steps, noise, C]: of CohortNoise. Does not wait. Returns whether the steps stand at
  // other addresses than before.
  bool put(const CohortSteps& steps, std::span<const int64_t> drawn);
  void choose(int64_t number);

  // For steps that are recorded: the device counts them. go_to() sets its counter for `count` steps
  // from `number` on; choose_ahead() chooses the step so many behind the counter, and move_on()
  // lets it count some: kernels both.
  void go_to(int64_t number, int64_t count);
  void choose_ahead(int64_t steps);
  void move_on(int64_t steps);

  // The chosen step, on the device:
  int64_t number() const { return number_; }
  const at::Tensor& places() const { return places_; }  // [C B] int64
  const at::Tensor& counts() const { return counts_; }  // [C] int64
  const at::Tensor& drawn() const { return drawn_; }    // [noise, C] int64
  const StepSize* sizes() const;                        // [C]
  at::Tensor scales() const;                            // [C] float32, theirs
  at::Tensor parts() const;                             // [C] int64, theirs
  const ImageChange* changes() const;                   // [C, B]; null: there is no room

 private:
  int64_t number_ = 0;
  int64_t counter_ = 0;  // where the device's counter is behind the steps that were asked for
  at::Tensor table_;     // int64: the device's counter, then [steps, width]
  at::Tensor now_;       // [width]
  at::Tensor places_, counts_, drawn_, sizes_, changes_;  // parts of it, in this order
};

}  // namespace hanse
