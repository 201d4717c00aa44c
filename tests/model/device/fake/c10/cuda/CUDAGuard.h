// In the place of LibTorch's: notes which device its rank has chosen.
#pragma once

#include <c10/core/Device.h>

#include "model/device/fake_nccl.hpp"

namespace c10::cuda {

class CUDAGuard {
 public:
  explicit CUDAGuard(c10::Device device) { hanse::fake::choose_device(device.str()); }
  ~CUDAGuard() { hanse::fake::choose_device(""); }
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
};

}  // namespace c10::cuda
