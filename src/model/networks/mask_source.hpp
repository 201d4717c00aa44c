// Who draws the masks of a graph's dropout in a pass of training.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>

#include "hanse/base/random.hpp"

namespace hanse {

// One stream of bits, of which masks take parts in the order of calls: 32 bits a value, and each
// mask an even number of them.
class MaskSource {
 public:
  virtual ~MaskSource() = default;
  // 1 where the bits are below `threshold`, at most 2^32, else 0: float32, or bool.
  virtual at::Tensor keep(at::IntArrayRef shape, uint64_t threshold, bool is_bool) = 0;
};

// Drawn by the host, for any device.
class HostMasks final : public MaskSource {
 public:
  explicit HostMasks(at::Device device = at::kCPU) : device_(device) {}

  // Begins RandomStream(seed, Purpose::kDropout).
  void start(uint64_t seed) { stream_ = RandomStream(seed, Purpose::kDropout); }
  at::Tensor keep(at::IntArrayRef shape, uint64_t threshold, bool is_bool) override;

 private:
  at::Device device_;
  RandomStream stream_{0, Purpose::kDropout};
};

}  // namespace hanse
