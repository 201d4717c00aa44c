// The one way from a device to the host's memory: it waits for the device and is counted.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

namespace hanse {

inline std::atomic<int64_t>& download_count() {
  static std::atomic<int64_t> count{0};
  return count;
}

// The tensor itself, when it lies there.
inline at::Tensor downloaded(const at::Tensor& values) {
  ++download_count();
  return values.cpu();
}

// Copies to memory for values.numel() values of its type.
inline void download(const at::Tensor& values, void* to) {
  ++download_count();
  at::from_blob(to, values.sizes(), values.scalar_type()).copy_(values);
}

// Tensors that come to the host's memory together, in one transfer.
class Downloads {
 public:
  // `to` has room for values.numel() values of their type.
  void add(const at::Tensor& values, void* to) {
    const at::Tensor bytes = values.contiguous().flatten().view(at::kByte);
    parts_.push_back(bytes);
    places_.push_back(static_cast<uint8_t*>(to));
    bytes_ += bytes.numel();
  }
  int64_t bytes() const { return bytes_; }

  // Waits for the device.
  void bring() {
    if (parts_.empty()) return;
    const at::Tensor all = downloaded(at::cat(parts_));
    const uint8_t* next = all.data_ptr<uint8_t>();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      std::copy_n(next, parts_[i].numel(), places_[i]);
      next += parts_[i].numel();
    }
    *this = {};
  }

 private:
  std::vector<at::Tensor> parts_;  // bytes
  std::vector<uint8_t*> places_;
  int64_t bytes_ = 0;
};

}  // namespace hanse
