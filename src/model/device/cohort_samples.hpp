// The samples of a cohort on its device, and the labels that are mixed into them.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>

#include "hanse/data/label_form.hpp"
#include "hanse/model/batch.hpp"

namespace hanse {

// All tensors stay where they are.
struct CohortSamples {
  // Zeros, in places for `samples` of so many values; `mixes`: with room for mixtures.
  CohortSamples(int64_t samples, int64_t values, const LabelForm& labels, bool mixes,
                const at::TensorOptions& on_device);

  // Cohort::put().
  void put(int64_t begin, const Batch& batch);

  at::Tensor features;  // [samples, values of a sample]
  at::Tensor targets;   // [samples] or [samples, values] labels, int32; targets, float32
  at::Tensor others;    // likewise, of what is mixed in; undefined: nothing is
  at::Tensor shares;    // [samples] of the own labels in a mixture
};

}  // namespace hanse
