// Collectives over what lies on the ranks' devices. Control stays with the Communicator.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/comm/communicator.hpp"

namespace at {
class Tensor;
}

namespace hanse {

// Made by TorchLibrary::make_staged_communicator and make_nccl_communicator. Every method is
// collective; a failure throws CommError.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;

  // The sums of the ranks' `values` [n] (int64 or float32, contiguous) in the root's `values`; the
  // others' are undefined afterwards.
  virtual void sum(at::Tensor& values, int root) = 0;

  // The root's `row` [n], in the host's memory, in every rank's `row` and, on every rank's device,
  // in `on_device` [n] (float32, contiguous).
  virtual void bcast(std::span<float> row, at::Tensor& on_device, int root) = 0;

  // The sums of the ranks' `values` [ranks * n] (int64 or float32, contiguous), the r-th part of
  // them in rank r's `part` [n].
  virtual void reduce_scatter(const at::Tensor& values, at::Tensor& part) = 0;

  // Every rank's `part` [n] in every rank's `values` [ranks * n] (float32, contiguous).
  virtual void all_gather(const at::Tensor& part, at::Tensor& values) = 0;

  // As Communicator::alltoallv, of float32 tensors that are contiguous. What a rank has for itself
  // does not leave its device.
  virtual void alltoallv(const at::Tensor& out, std::span<const int64_t> sends, at::Tensor& in,
                         std::span<const int64_t> receives) = 0;

  // Payload as in Communicator::bytes_moved(), of collectives rooted here that did not go through a
  // Communicator, which counts its own.
  int64_t bytes_moved() const { return bytes_moved_; }

 protected:
  int64_t bytes_moved_ = 0;
};

}  // namespace hanse
