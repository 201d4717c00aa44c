// A round's updates that wait on a rank's device until they are weighed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/comm/device_communicator.hpp"
#include "hanse/sums/device_sum.hpp"
#include "hanse/sums/gram.hpp"

namespace hanse {

// Memory on the device: a row for each of this rank's updates, and of one block of L values (P /
// GramBlocks::kMost, kLength at least) of all K rows the float32 values, twice, and the float64
// ones. The host gets numbers only.
class DeviceUpdates {
 public:
  // `layers`: the parts of a row that are weighed apart, all of the row together. `device` as
  // LibTorch names it. `comm` and `devices` must outlive the object.
  DeviceUpdates(Communicator& comm, DeviceCommunicator& devices, std::vector<RowPart> layers,
                const std::string& device);
  ~DeviceUpdates();

  // Keeps rows[i] - theta for positions[i] in the draw, for the first positions.size() of rows
  // [C, P]; theta [P]. Squared norms as DeviceSum::fold() has them. Waits for the device.
  std::vector<FoldResult> keep(const at::Tensor& rows, const at::Tensor& theta,
                               std::span<const int64_t> positions);

  // Collective: GramBlocks::sum of the k updates of the round. A block's products are one float64
  // multiplication [K, L] x [L, K] of values in the draw's order, in memory of its own: what the
  // library chooses its kernel by depends on the block and on K alone, and so do the bits, on one
  // kind of device. Cost: twice the multiplications of GramExchange, K P / ranks values sent a
  // rank.
  std::vector<double> gram(int64_t k);

  // Folds the kept updates by coefficients [layers, k] into `sum`, and forgets them. Returns the
  // position of one that is out of range, else -1.
  int64_t fold(std::span<const double> coefficients, int64_t k, DeviceSum& sum);
  void clear();

  std::size_t layers() const { return layers_.size(); }

 private:
  at::Tensor exchange(int64_t first_block);
  at::Tensor arrivals() const;

  Communicator& comm_;
  DeviceCommunicator& devices_;
  std::string device_;
  std::vector<RowPart> layers_;
  GramBlocks blocks_;
  std::vector<at::Tensor> kept_;    // [n, P] each; positions_.size() rows in all
  std::vector<int64_t> positions_;  // of those rows
};

}  // namespace hanse
