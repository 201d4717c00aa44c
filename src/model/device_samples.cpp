#include "hanse/model/device_samples.hpp"

#include <ATen/ATen.h>

namespace hanse {

namespace {

template <class T>
void copy_to(at::Tensor& tensor, int64_t begin, int64_t rows, const T* values) {
  at::Tensor place = tensor.narrow(0, begin, rows);
  place.copy_(at::from_blob(const_cast<T*>(values), place.sizes(), tensor.scalar_type()));
}

}  // namespace

DeviceSamples::DeviceSamples(int64_t samples, int64_t values, int64_t classes,
                             const std::string& device) {
  const auto floats = at::TensorOptions(at::kFloat).device(at::Device(device));
  features_ = std::make_unique<at::Tensor>(at::zeros({samples, values}, floats));
  targets_ = std::make_unique<at::Tensor>(
      at::zeros({samples}, classes > 0 ? floats.dtype(at::kInt) : floats));
}

DeviceSamples::~DeviceSamples() = default;

void DeviceSamples::put(int64_t begin, const Batch& batch) {
  copy_to(*features_, begin, batch.rows, batch.features);
  if (batch.labels != nullptr) copy_to(*targets_, begin, batch.rows, batch.labels);
  if (batch.targets != nullptr) copy_to(*targets_, begin, batch.rows, batch.targets);
}

}  // namespace hanse
