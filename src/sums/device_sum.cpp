#include "hanse/sums/device_sum.hpp"

#include <cmath>

#include <ATen/ATen.h>

namespace hanse {

namespace {

constexpr double kScale = int64_t{1} << UpdateSum::kFractionBits;

}  // namespace

DeviceSum::DeviceSum(int64_t n_params, int64_t addends, const std::string& device)
    : limit_(UpdateSum(0, addends, Reduction::kExact).limit() * kScale),
      fixed_(std::make_unique<at::Tensor>(
          at::zeros({n_params}, at::TensorOptions(at::kLong).device(at::Device(device))))) {}

DeviceSum::~DeviceSum() = default;

// As fold_plain() has it: fixed += round(c 2^44 (row - theta)), to nearest even, what does not fit
// left out.
std::vector<FoldResult> DeviceSum::fold(const at::Tensor& rows, const at::Tensor& theta,
                                        std::span<const double> coefficients, int64_t begin) {
  const at::Tensor origin = theta.defined() ? theta.to(at::kDouble) : theta;
  at::Tensor fixed = fixed_->narrow(0, begin, rows.size(1));
  std::vector<at::Tensor> told;  // squared norm, 1 when all fitted
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    at::Tensor delta = rows[static_cast<int64_t>(i)].to(at::kDouble);
    if (origin.defined()) delta.sub_(origin);
    const at::Tensor addend = delta * (coefficients[i] * kScale);
    const at::Tensor fits = addend.abs().le(limit_);  // not for NaN
    told.push_back(at::stack({at::sum(delta * delta), fits.all().to(at::kDouble)}));
    fixed.add_(at::where(fits, addend, at::zeros_like(addend)).round_().to(at::kLong));
  }
  const at::Tensor on_host = at::stack(told).cpu();
  const auto* numbers = on_host.data_ptr<double>();
  std::vector<FoldResult> results;
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    const double squared_norm = numbers[2 * i];
    results.push_back({.squared_norm = squared_norm,
                       .in_range = numbers[2 * i + 1] == 1 && std::isfinite(squared_norm)});
  }
  return results;
}

void DeviceSum::reduce(DeviceCommunicator& comm, int root) { comm.sum(*fixed_, root); }

void DeviceSum::move_to(UpdateSum& sum) {
  const at::Tensor on_host = fixed_->cpu();
  sum.add({on_host.data_ptr<int64_t>(), static_cast<std::size_t>(on_host.numel())});
  clear();
}

void DeviceSum::clear() { fixed_->zero_(); }

}  // namespace hanse
