// A low-rank change of a frozen matrix (LoRA, Hu et al. 2022).
#pragma once

#include <cstdint>

#include "hanse/base/aligned.hpp"
#include "hanse/model/weight_gradient.hpp"

namespace hanse {

// The factors of an adapter: A [rank, in] and B [out, rank].
struct AdapterFactors {
  const float* a;
  const float* b;
};

// W = W_0 + s B A of W_0 [out, in].
struct AdapterPlace {
  int64_t weight;  // where W_0 begins in the whole model's row
  int64_t out, in, rank;
  float scale;  // s

  int64_t size() const { return out * in; }
  int64_t a_size() const { return rank * in; }
  int64_t b_size() const { return out * rank; }
  // Writes W [out, in]. Cost: rank out in multiply-adds, and a pass over W_0 and W.
  void expand(const float* w0, AdapterFactors factors, float* w) const;
  // The same of W_0 in bfloat16.
  void expand(const uint16_t* w0, AdapterFactors factors, float* w) const;
};

// The gradient of a loss by A and B, from that by W, which comes in parts:
//   dA = s B^T dW,  dB = s dW A^T
class AdapterGradient {
 public:
  // Which factors move: of others nothing is computed.
  struct Wanted {
    bool a = true, b = true;
  };

  // Starts a step at these A and B, which must not change until its end.
  void start(const AdapterPlace& place, AdapterFactors factors, Wanted wanted);
  // Adds `size` values of dW from the first-th.
  void add(int64_t first, const float* dw, int64_t size);
  // Adds dW = D^T X without computing it: dA = s (D B)^T X, dB = s D^T (X A^T).
  void add(const WeightGradient& dw);

  float* a() { return da_.data(); }  // [rank, in]
  float* b() { return db_.data(); }  // [out, rank]

 private:
  void add_block(int64_t o, int64_t n_out, int64_t i, int64_t n_in, const float* dw);

  AdapterPlace place_{};
  AdapterFactors at_{};
  Wanted wanted_;
  AlignedFloats da_, db_;
  AlignedFloats by_samples_;  // [samples, rank]
};

}  // namespace hanse
