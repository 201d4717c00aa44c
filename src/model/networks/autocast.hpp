// LibTorch's autocast.
#pragma once

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace hanse {

// While it lives, this thread's operators on a kind of device take float32 arguments in bfloat16,
// those that LibTorch's list has: products, convolutions, attention. A parameter is cast once, and
// anew in the time of the next object: rows are written without LibTorch's knowledge. Two must not
// overlap.
class Autocast {
 public:
  // at::kCPU or at::kCUDA.
  explicit Autocast(at::DeviceType type) : type_(type) { turn(true); }
  ~Autocast() {
    turn(false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  void turn(bool on) const {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    at::autocast::set_autocast_dtype(type_, at::kBFloat16);
    at::autocast::set_autocast_enabled(type_, on);
#else
    if (type_ == at::kCUDA) {
      at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
      at::autocast::set_enabled(on);
      return;
    }
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(on);
#endif
  }

  at::DeviceType type_;
};

// What `pass` returns. `narrow`: with its products in bfloat16 by autocast; then a bfloat16 result
// is turned into float32.
template <class Pass>
at::Tensor in_precision(bool narrow, at::DeviceType type, const Pass& pass) {
  if (!narrow) return pass();
  const Autocast factors(type);
  const at::Tensor result = pass();
  return result.scalar_type() == at::kBFloat16 ? result.to(at::kFloat) : result;
}

}  // namespace hanse
