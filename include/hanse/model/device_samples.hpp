// Samples on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/model/model.hpp"

namespace at {
class Tensor;
}

namespace hanse {

// Of one shape, zero until they are put there. Memory on the device: 4 bytes a value.
class DeviceSamples {
 public:
  // `values`: of a sample; `classes`: 0 for regression; `device` as LibTorch names it.
  DeviceSamples(int64_t samples, int64_t values, int64_t classes, const std::string& device);
  ~DeviceSamples();

  // Copies a batch from the host's memory to the samples [begin, begin + batch.rows). Waits for the
  // device to have read it.
  void put(int64_t begin, const Batch& batch);

  const at::Tensor& features() const { return *features_; }  // [samples, values] float32
  // [samples]: labels, int32; targets, float32, for regression.
  const at::Tensor& targets() const { return *targets_; }

 private:
  std::unique_ptr<at::Tensor> features_;
  std::unique_ptr<at::Tensor> targets_;
};

}  // namespace hanse
