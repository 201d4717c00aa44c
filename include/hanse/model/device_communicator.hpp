// Collectives over tensors on the ranks' devices. Control stays with the Communicator.
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

  // Sums the ranks' `values` [n] (int64 or float32, contiguous) into the root's `values`; the
  // others' are undefined afterwards.
  virtual void sum(at::Tensor& values, int root) = 0;

  // Copies the root's `row` [n], in the host's memory, to every rank's `row` and to `on_device` [n]
  // (float32, contiguous) on every rank's device.
  virtual void bcast(std::span<float> row, at::Tensor& on_device, int root) = 0;

  // Sums the ranks' `values` [ranks * n] (int64 or float32, contiguous); rank r's `part` [n] gets
  // the r-th part of the sums.
  virtual void reduce_scatter(const at::Tensor& values, at::Tensor& part) = 0;

  // Copies every rank's `part` [n] to every rank's `values` [ranks * n] (float32, contiguous).
  virtual void all_gather(const at::Tensor& part, at::Tensor& values) = 0;

  // Communicator::alltoallv for float32 tensors that are contiguous. A rank's elements for itself
  // do not leave its device.
  virtual void alltoallv(const at::Tensor& out, std::span<const int64_t> sends, at::Tensor& in,
                         std::span<const int64_t> receives) = 0;

  // Payload as in Communicator::bytes_moved(), in collectives rooted here; a Communicator counts
  // what goes through it.
  int64_t bytes_moved() const { return bytes_moved_; }

 protected:
  int64_t bytes_moved_ = 0;
};

}  // namespace hanse
