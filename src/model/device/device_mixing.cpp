#include <vector>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include "device/device.hpp"
#include "device/download.hpp"

namespace hanse {

void mix_rows_on(const std::string& device, std::span<const double> weights,
                 std::span<const float> rows, int64_t n, std::span<float> out) {
  const at::NoGradGuard no_grad;
  const at::NoTF32Guard in_float32;  // model.precision is of networks
  std::vector<float> shares(weights.begin(), weights.end());
  const auto there = [&](const float* first, int64_t height, int64_t width) {
    return at::from_blob(const_cast<float*>(first), {height, width}, at::kFloat)
        .to(at::Device(device), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  };
  const int64_t m = std::ssize(weights) / n, width = std::ssize(rows) / n;
  download(at::mm(there(shares.data(), m, n), there(rows.data(), n, width)), out.data());
}

}  // namespace hanse
