#include "device/cohort_samples.hpp"

#include <vector>

#include "device/upload.hpp"

namespace hanse {

CohortSamples::CohortSamples(int64_t samples, int64_t values, const LabelForm& labels, bool mixes,
                             const at::TensorOptions& on_device)
    : features(at::zeros({samples, values}, on_device)) {
  std::vector<int64_t> sizes{samples};
  if (labels.values > 1) sizes.push_back(labels.values);
  targets = at::zeros(sizes, labels.classes > 0 ? on_device.dtype(at::kInt) : on_device);
  if (!mixes) return;
  others = at::zeros_like(targets);
  shares = at::ones({samples}, on_device);
}

void CohortSamples::put(int64_t begin, const Batch& batch) {
  const auto bring = [&](at::Tensor& to, const int32_t* labels, const float* numbers) {
    if (labels != nullptr) upload(to, begin, batch.rows, labels);
    if (numbers != nullptr) upload(to, begin, batch.rows, numbers);
  };
  upload(features, begin, batch.rows, batch.features);
  bring(targets, batch.labels, batch.targets);
  if (!others.defined()) return;
  const MixedLabels own{.labels = batch.labels, .targets = batch.targets};
  const MixedLabels& mixed = batch.mixed != nullptr ? *batch.mixed : own;
  bring(others, mixed.labels, mixed.targets);
  shares.narrow(0, begin, batch.rows).fill_(mixed.share);
}

}  // namespace hanse
