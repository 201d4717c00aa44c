// The updates of a round on the ranks' devices: their exact sum, and updates that wait there for
// their coefficients. TorchLibrary makes both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/model/device_communicator.hpp"
#include "hanse/sums/gram.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// Numbers that come from the device to the host's memory in a transfer of others.
struct Along {
  const at::Tensor* from = nullptr;  // [n] float64; null: none
  std::span<double> to = {};         // [n]
};

// UpdateSum on a device, sum_i c_i (theta_i - theta): the same addends, bit for bit, in 64-bit
// fixed point and the same limit, or in float32.
class DeviceSum {
 public:
  virtual ~DeviceSum() = default;

  // Adds coefficients[i] * (rows[i] - theta) for the first coefficients.size() of rows [C, n].
  // theta [n] may be a part of the parameters, from `begin` on; if it is undefined, the rows are
  // the updates themselves. Squared norms are summed in float64 in the device's order, which (n,
  // kind of device) fixes. Waits for the device once: results and `along` come together.
  virtual std::vector<FoldResult> fold(const at::Tensor& rows, const at::Tensor& theta,
                                       std::span<const double> coefficients, int64_t begin = 0,
                                       const Along& along = {}) = 0;

  // fold() of whole rows, with theta [P], or [C, P] for rows of several origins. All of it is in
  // the sum, and the first `trained` values in the norm: what stands behind them are buffers.
  virtual std::vector<FoldResult> fold_model(const at::Tensor& rows, const at::Tensor& theta,
                                             std::span<const double> coefficients, int64_t trained,
                                             const Along& along) = 0;

  // As UpdateSum::scale(); halves of a unit become even ones.
  virtual void scale(double factor) = 0;

  // Sums over the ranks to `root`; the others' are undefined afterwards. Collective.
  virtual void reduce(DeviceCommunicator& comm, int root) = 0;

  // Writes the sum to `out` [P], in the host's memory, as UpdateSum::take() does, and clears it.
  virtual void take(std::span<float> out) = 0;
  virtual void clear() = 0;

  // [P] int64 in units of 2^-44, or float32.
  virtual const at::Tensor& values() const = 0;
};

// Keeps updates until the coefficients are known. Memory on the device: a row for each of this
// rank's updates, and for one block of L values (P / GramBlocks::kMost, kLength at least) of all K
// rows the float32 values, twice, and the float64 ones. The host gets numbers only.
class DeviceUpdates {
 public:
  virtual ~DeviceUpdates() = default;

  // Keeps rows[i] - theta for positions[i] in the draw, for the first positions.size() of rows [C,
  // P]; theta [P] or [C, P], undefined: the rows are the updates. Norms as in
  // DeviceSum::fold_model(); in range is what is finite. Waits for the device, once.
  virtual std::vector<FoldResult> keep(const at::Tensor& rows, const at::Tensor& theta,
                                       std::span<const int64_t> positions,
                                       const Along& along = {}) = 0;

  // Collective: GramSums::matrices() of the k updates of the round. A block's products are one
  // float64 multiplication [K, L] x [L, K] of values in the draw's order, in memory of its own: the
  // library chooses its kernel by the block and K alone, which therefore fix the bits on one kind
  // of device. Cost: twice the multiplications of GramExchange; each rank sends K P / ranks values.
  virtual std::vector<double> gram(int64_t k) = 0;

  // Folds the kept updates by coefficients [layers, k] into `sum`, and forgets them; one of
  // coefficient 0 does not count, whatever it holds. Returns the position of an update that is out
  // of range, else -1. Waits for the device once for each run of others.
  virtual int64_t fold(std::span<const double> coefficients, int64_t k, DeviceSum& sum) = 0;
  virtual void clear() = 0;
};

}  // namespace hanse
