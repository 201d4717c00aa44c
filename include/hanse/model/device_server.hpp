// The server's step on the devices that hold the sum of the updates.
#pragma once

#include <cstdint>

#include "hanse/model/device_sums.hpp"
#include "hanse/model/entry_step.hpp"

namespace hanse {

// Made by TorchLibrary::make_device_server. Each rank sums and steps a part of the entries, P /
// ranks of them, and keeps the optimizer's rows for that part; the bits are those of a step on rank
// 0. Every method but forget() is collective.
class DeviceServer {
 public:
  virtual ~DeviceServer() = default;

  // theta [P], on the ranks' devices, moves along the sum over the ranks, which is cleared. The
  // optimizer's rows come from `states` at the first step and after forget(). Cost a rank: 8 P
  // bytes of the sum sent and received, or 4 P in float32; 4 P of the model. Does not wait.
  virtual void step(const EntryStep& step, const EntryStates& states, DeviceSum& sum,
                    at::Tensor& theta) = 0;
  // Writes the optimizer's present rows into `states` on rank 0; does nothing without a step since
  // forget(), when they are right already.
  virtual void collect(const EntryStates& states) = 0;
  // `states` have changed on rank 0.
  virtual void forget() = 0;
};

}  // namespace hanse
