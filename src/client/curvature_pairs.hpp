// Pairs (s, y) of a quasi-Newton client, steps and changes of the gradient, and what they say of
// the curvature: those of one round, and those that are kept between rounds.
#pragma once

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

// A pair made of gradients, each by its place among them: s = factor times one, y is what the
// gradient at the end of the step has changed by.
struct PairTerms {
  float factor;
  std::size_t step, change, end;
};

// lbfgs_rate of gradient number 0 with the pairs that have curvature (has_curvature), nothing when
// there is none; gram [n, n] of all gradients.
std::optional<double> rate_of_pairs(std::span<const PairTerms> pairs, std::span<const double> gram);

// Up to m pairs, as gradients that stay until rate(), which makes their inner products at once: y
// itself, a difference of gradients, is never written.
class RoundPairs {
 public:
  // Gradients of P values are kept in factors or as rows; of rows there is room for 2 m.
  RoundPairs(int64_t n_params, int64_t most, bool in_factors);

  // A pair of s = factor step. REQUIRES: less than m pairs.
  FreshPair begin(float factor);
  // As begin(1), but with a row for s, which is no gradient then.
  FreshPair begin_with_row();

  // Ends the oldest pair without an end. REQUIRES: there is one. The gradient must stay until
  // rate(); it may be the step of another pair.
  void end(const GradientRecord& gradient) { pairs_[ended_++].gradient = &gradient; }

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
  std::size_t begun_ = 0;    // of these
  std::size_t ended_ = 0;
};

// The last m pairs (s, y) of P values, and those of their inner products that a rate needs. A view
// of floats that live elsewhere; zeros hold no pair.
//
// A round begins pairs, has gradients written where they are kept, and ends the pairs; rate() makes
// every y and every product in one pass, while the rows are in the cache. Old pairs stay until new
// ones have shown curvature.
class KeptPairs {
 public:
  // Floats that hold so many pairs of P values.
  static int64_t width(int64_t n_params, int64_t slots);

  // REQUIRES: state of width(n_params, slots) floats; slots >= most, which is m, and as many pairs
  // a round. Best on a line.
  KeptPairs(std::span<float> state, int64_t n_params, int64_t most, int64_t slots);

  // As RoundPairs::begin; all gradients are rows. REQUIRES: a slot without a pair, old or fresh.
  FreshPair begin(float factor);
  FreshPair begin_with_row() { return begin(1); }
  void end(const GradientRecord& gradient) { fresh_[ended_++].gradient = gradient.row().data(); }

  // Takes the pairs that ended, but for those that lack curvature (has_curvature); the oldest of
  // more than m leave. Returns lbfgs_rate of `gradient`, nothing when there is no pair. Cost: one
  // pass over the pairs, two when one lacks curvature and old ones take its place.
  std::optional<double> rate(const GradientRecord& gradient);

 private:
  struct Fresh {
    std::size_t slot;
    const float* gradient = nullptr;  // [P] where it ended
  };
  // Inner products of the gradient with s_1, y_1, ..., and with itself.
  struct Products {
    std::vector<double> steps, changes;  // [pairs]
    double self = 0;
  };

  std::span<float> row(std::size_t slot, std::size_t part) const;
  float& scale(std::size_t slot) const;
  double stored(std::size_t part, std::size_t i, std::size_t j) const;
  void store(std::size_t part, std::size_t i, std::size_t j, double product) const;
  std::vector<std::size_t> newest() const;
  Products measure(std::span<const float> gradient, bool makes_changes);
  bool drop_without_curvature();
  void keep(std::vector<std::size_t> pairs);
  double rate_of(const Products& products) const;

  std::size_t n_params_;
  std::size_t most_;
  std::size_t slots_;
  std::span<float> rows_;
  std::span<float> notes_;
  std::vector<std::size_t> pairs_;     // slots, oldest first
  std::vector<GradientRecord> views_;  // of every slot's two rows
  std::vector<Fresh> fresh_;
  std::size_t ended_ = 0;        // of these
  std::vector<double> squares_;  // s.s of the fresh ones
};

}  // namespace hanse
