// The pairs of an L-BFGS matrix that a client makes in one round.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/model/gradient_record.hpp"

namespace hanse {

// A pair (s, y) in the making, to be written.
struct FreshPair {
  GradientRecord* step;    // s over its factor
  GradientRecord* change;  // the gradient where the step began
};

// Of pairs that end in the order in which they began, each at its `gradient`: the first that has
// none yet ends there. REQUIRES: one that has none.
template <class Pairs, class Gradient>
void end_first_open(Pairs& pairs, Gradient gradient) {
  std::find_if(pairs.begin(), pairs.end(), [](const auto& pair) {
    return pair.gradient == nullptr;
  })->gradient = gradient;
}

// Up to m pairs, as gradients that stay until rate(), which makes their inner products at once: y
// itself, a difference of gradients, is never written.
class RoundPairs {
 public:
  // Gradients of P values are kept in factors or as rows; of rows there is room for 2 m.
  RoundPairs(int64_t n_params, int64_t most, bool in_factors);

  // A pair of s = factor step. REQUIRES: less than m pairs.
  FreshPair begin(float factor);
  // The same with factor 1 and a row for s, which is no gradient then.
  FreshPair begin_with_row();

  // Ends the pair that was begun first of those that have no end. The gradient must stay until
  // rate(); it may be the step of another pair.
  void end(const GradientRecord& gradient);

  // lbfgs_rate of `gradient` with the pairs that have curvature (has_curvature), nothing when there
  // is none; then all pairs are gone. Cost: GradientRecord::gram of 2 m + 1 gradients.
  std::optional<double> rate(const GradientRecord& gradient);

 private:
  struct Pair {
    GradientRecord step, change;
    float factor = 1;
    const GradientRecord* gradient = nullptr;  // where the step ended
  };

  std::span<float> row(std::size_t pair, std::size_t part);

  std::size_t n_params_;
  bool in_factors_;
  AlignedFloats rows_;       // [m, 2, P] in whole lines, or the one of begin_with_row()
  std::vector<Pair> pairs_;  // [m]
  std::size_t count_ = 0;    // of those that were begun
};

}  // namespace hanse
