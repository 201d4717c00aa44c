// The masks of a graph's dropout, drawn on the device with the bits of HostMasks.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>

#include "networks/mask_source.hpp"

namespace hanse {

class DeviceMasks final : public MaskSource {
 public:
  explicit DeviceMasks(at::Device device)
      : on_device_(at::TensorOptions(at::kLong).device(device)) {}

  // Begins a stream as HostMasks does.
  void start(uint64_t seed);
  // The same with a seed [1] on the device, which is read when the kernels run: they can be
  // recorded.
  void start(const at::Tensor& seed);
  at::Tensor keep(at::IntArrayRef shape, uint64_t threshold, bool is_bool) override;

 private:
  at::TensorOptions on_device_;
  at::Tensor seed_;    // [1] int64
  int64_t drawn_ = 0;  // values of 64 bits
};

}  // namespace hanse
