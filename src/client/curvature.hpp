// The pairs of a client's L-BFGS matrix, in a part of its state.
#pragma once

#include <cstdint>
#include <span>

namespace hanse {

// The last m pairs (s, y) of P values, with the inner products of all of them, so that a rate
// costs one pass over the pairs. A view of floats that live elsewhere; zeros hold no pair.
class CurvaturePairs {
 public:
  // Floats that hold m pairs of P values, and the one that is being made.
  static int64_t width(int64_t n_params, int64_t most);

  // REQUIRES: state of width(n_params, most) floats; most >= 1.
  CurvaturePairs(std::span<float> state, int64_t n_params, int64_t most);

  // [P] each: where the next s and y are made. They keep what is written there until take().
  std::span<float> step() { return row(next_, 0); }
  std::span<float> change() { return row(next_, 1); }

  // Makes y = gradient - change(), and takes the pair; the oldest of m leaves. A pair that lacks
  // curvature (has_curvature) is not taken.
  void take(std::span<const float> gradient);

  // lbfgs_rate of `gradient` on the pairs. Inner products of pairs taken since the last call are
  // made here. REQUIRES: count() >= 1.
  double rate(std::span<const float> gradient);

  int64_t count() const { return count_; }

 private:
  std::span<float> row(int64_t slot, int64_t part) {
    return {pairs_ + (2 * slot + part) * n_params_, static_cast<std::size_t>(n_params_)};
  }
  int64_t slots() const { return most_ + 1; }
  std::size_t recall(std::span<double> gram, std::size_t size) const;
  void remember(std::span<const double> gram, std::size_t size);

  int64_t n_params_;
  int64_t most_;
  float* header_;      // count, next
  float* products_;    // [2m, 2m] doubles of s, y, s, y, ..., oldest first
  float* pairs_;       // [m + 1, 2, P] s and y
  int64_t count_;      // of pairs
  int64_t next_;       // slot of the pair that is being made; the youngest lies before it
  int64_t measured_;   // pairs at the last rate, whose products are known
  int64_t fresh_ = 0;  // pairs taken since
};

}  // namespace hanse
