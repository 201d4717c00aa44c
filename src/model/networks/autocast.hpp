// LibTorch's autocast on CPUs.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace hanse {

// While it lives, this thread's operators on CPUs take float32 arguments in bfloat16, those that
// LibTorch's list has: products, convolutions, attention. A parameter is cast once, and anew in the
// time of the next object: rows are written without LibTorch's knowledge. Two must not overlap.
class Autocast {
 public:
  Autocast() { turn(true); }
  ~Autocast() {
    turn(false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  static void turn(bool on) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, on);
#else
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(on);
#endif
  }
};

}  // namespace hanse
