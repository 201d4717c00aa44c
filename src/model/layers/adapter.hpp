// A low-rank change of a frozen matrix (LoRA, Hu et al. 2022).
#pragma once

#include <cstdint>

#include "hanse/base/aligned.hpp"
#include "hanse/model/weight_gradient.hpp"

namespace hanse {

// W = W_0 + B A of W_0 [out, in], A [rank, in] and B [out, rank].
struct AdapterPlace {
  int64_t weight;  // where W_0 begins in the whole model's row
  int64_t out, in, rank;
  int64_t a, b;  // where A and B begin in the trained row

  int64_t size() const { return out * in; }
  // Writes W [out, in]. Cost: rank out in multiply-adds, and a pass over W_0 and W.
  void expand(const float* w0, const float* trained, float* w) const;
};

// The gradient of a loss by A and B, from that by W, which comes in parts:
//   dA = B^T dW,  dB = dW A^T
class AdapterGradient {
 public:
  // Starts a step at these A and B, which must not change until its end.
  void start(const AdapterPlace& place, const float* trained);
  // Adds `size` values of dW from the first-th.
  void add(int64_t first, const float* dw, int64_t size);
  // Adds dW = D^T X without computing it: dA = (D B)^T X, dB = D^T (X A^T).
  void add(const WeightGradient& dw);

  const float* a() const { return da_.data(); }  // [rank, in]
  const float* b() const { return db_.data(); }  // [out, rank]

 private:
  void add_block(int64_t o, int64_t n_out, int64_t i, int64_t n_in, const float* dw);

  AdapterPlace place_{};
  const float* a_ = nullptr;
  const float* b_ = nullptr;
  AlignedFloats da_, db_;
  AlignedFloats by_samples_;  // [samples, rank]
};

}  // namespace hanse
