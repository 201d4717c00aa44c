#include "device/cohort_images.hpp"

#include "device/kernels.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

namespace {

template <class Value>
Value* values_of(const at::Tensor& tensor) {
  const bool has_them =
      tensor.defined() && tensor.scalar_type() == c10::CppTypeToScalarType<Value>::value;
  return has_them ? tensor.data_ptr<Value>() : nullptr;
}

}  // namespace

CohortImages::CohortImages(const Cohort::Settings& settings,
                           const std::vector<int64_t>& sample_shape, const LabelForm& labels,
                           const StepTable& table, const CohortSamples& samples)
    : device_(samples.features.device()) {
  if (!settings.augments) return;
  const int64_t height = sample_shape[1], width = sample_shape[2];
  work_ = AugmentWork{.size = {static_cast<int32_t>(height), static_cast<int32_t>(width),
                               static_cast<int32_t>(settings.cutout)},
                      .height = height,
                      .width = width,
                      .values = static_cast<int32_t>(size_of(sample_shape)),
                      .batch = settings.batch,
                      .first = settings.samples - settings.clients * settings.batch,
                      .counts = table.counts().data_ptr<int64_t>(),
                      .changes = table.changes(),
                      .features = samples.features.data_ptr<float>(),
                      .label_values = labels.values,
                      .labels = values_of<int32_t>(samples.targets),
                      .other_labels = values_of<int32_t>(samples.others),
                      .targets = values_of<float>(samples.targets),
                      .other_targets = values_of<float>(samples.others),
                      .shares = values_of<float>(samples.shares)};
}

void CohortImages::make(int64_t clients) const {
  if (work_) run(*work_, clients * work_->batch, device_);
}

}  // namespace hanse
