#include "device/device_masks.hpp"

#include "device/kernels.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

void DeviceMasks::start(uint64_t seed) {
  start(at::full({1}, static_cast<int64_t>(seed), on_device_));
}

void DeviceMasks::start(const at::Tensor& seed) {
  seed_ = seed;
  drawn_ = 0;
}

at::Tensor DeviceMasks::keep(at::IntArrayRef shape, uint64_t threshold, bool is_bool) {
  const at::Tensor mask = at::empty(shape, on_device_.dtype(is_bool ? at::kBool : at::kFloat));
  const KeepWork work{.purpose = static_cast<uint64_t>(Purpose::kDropout),
                      .threshold = threshold,
                      .seed = seed_.data_ptr<int64_t>(),
                      .drawn = drawn_,
                      .values = mask.numel(),
                      .floats = is_bool ? nullptr : mask.data_ptr<float>(),
                      .bools = is_bool ? mask.data_ptr<bool>() : nullptr};
  run(work, work.items(), mask.device());
  drawn_ += KeepWork::draws(work.values);
  return mask;
}

}  // namespace hanse
