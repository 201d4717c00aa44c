// UpdateSum of rows that lie on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/comm/device_communicator.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// The exact sum, sum_i c_i (theta_i - theta), in 64-bit fixed point on a device: the same addends,
// bit for bit, as UpdateSum's, and the same limit. Memory: P int64, and about 5 P float64 while it
// folds.
class DeviceSum {
 public:
  // `device` as LibTorch names them. REQUIRES: as UpdateSum.
  DeviceSum(int64_t n_params, int64_t addends, const std::string& device);
  ~DeviceSum();

  // Adds coefficients[i] * (rows[i] - theta) for the first coefficients.size() of rows [C, n],
  // theta [n], which may be a part of the parameters, from `begin` on. Without theta (undefined)
  // the rows are the updates themselves. Squared norms are summed in float64 in the device's order,
  // which (n, kind of device) fixes. Waits for the device.
  std::vector<FoldResult> fold(const at::Tensor& rows, const at::Tensor& theta,
                               std::span<const double> coefficients, int64_t begin = 0);

  // Sums over the ranks to `root`; the others' are undefined afterwards. Collective.
  void reduce(DeviceCommunicator& comm, int root);

  // Adds it to a sum in the host's memory, and clears it for the next round.
  void move_to(UpdateSum& sum);
  void clear();

 private:
  double limit_;                       // of an addend, in units of 2^-44
  std::unique_ptr<at::Tensor> fixed_;  // [P] int64, in units of 2^-44
};

}  // namespace hanse
