// A dense layer that many rows pass in parts, on several threads: those of a transformer's tokens.
#pragma once

#include <cstdint>
#include <optional>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "kernels/packed_matrix.hpp"
#include "layers/bfloat16_dense.hpp"

namespace hanse {

// y = x W^T + b with W [out, in] and b [out] in a row of parameters. A row of y has the same bits
// however many rows come with it. Cost: 2 in out flops a row, forwards, backwards and for the
// gradient of W each. Memory: a copy of W.
class TokenDense {
 public:
  // Where W and b begin.
  struct Place {
    int64_t weight, bias;
  };

  TokenDense(Place place, int64_t out, int64_t in, bool in_bfloat16);

  // Takes W and b from a row of parameters. Then y [rows, out] <- x W^T + b.
  void load(const float* row);
  void multiply(const float* x, int64_t rows, float* y) const;

  // Takes W. Then dx [rows, in] <- delta W, or dx + delta W.
  void load_back(const float* row);
  void take_back(const float* delta, int64_t rows, float* dx) const;
  void add_back(const float* delta, int64_t rows, float* dx) const;

  // Does the target want the gradient of W or b?
  bool is_wanted(const GradientTarget& target) const {
    return target.wants(place_.weight) || target.wants(place_.bias);
  }
  // Hands both over, of x [rows, in] and the deltas of y.
  void add_gradient(const float* x, const float* deltas, int64_t rows,
                    const GradientTarget& target);

 private:
  void add_narrow(WeightGradient g, const GradientTarget& target);

  Place place_;
  int64_t out_, in_;
  PackedMatrix weight_;  // W^T behind load(), W behind load_back()
  std::optional<Bfloat16Dense> bfloat16_;
  AlignedFloats bias_;             // [out, in whole lines], and its gradient
  AlignedFloats deltas_, inputs_;  // a step's factors in bfloat16
};

}  // namespace hanse
