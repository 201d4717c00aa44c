// The images of a cohort's steps, where the device changes them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/augment_work.hpp"
#include "device/cohort_samples.hpp"
#include "device/step_table.hpp"
#include "hanse/model/cohort.hpp"

namespace hanse {

class CohortImages {
 public:
  // `table` and `samples` must outlive the object and stay where they are.
  CohortImages(const Cohort::Settings& settings, const std::vector<int64_t>& sample_shape,
               const LabelForm& labels, const StepTable& table, const CohortSamples& samples);

  // Makes those of the table's step, of the first `clients`, where the settings change them.
  void make(int64_t clients) const;

 private:
  std::optional<AugmentWork> work_;
  at::Device device_;
};

}  // namespace hanse
