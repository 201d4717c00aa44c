// Gradients that outlive their batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/model/weight_gradient.hpp"

namespace hanse {

// A gradient of P values, as a row or in factors. The gradient of a dense layer's weight [out, in]
// over B samples is D^T X, with D [B, out] the deltas of its outputs and X [B, in] its inputs: B
// (out + in) floats in the place of out in. The inner product of two such gradients is the sum over
// all pairs of samples of (D_1 D_2^T) times (X_1 X_2^T), entry by entry.
class GradientRecord {
 public:
  GradientRecord() = default;
  // Refers to a row that lives elsewhere.
  explicit GradientRecord(std::span<float> row) : row_(row), values_({{0, 0, row.size()}}) {}

  // [P]; empty for a gradient in factors.
  std::span<float> row() const { return row_; }

  // Makes it a gradient in factors without parts; their memory stays. Every value must then be in
  // one part. Parts are copied.
  void clear();
  void add_product(const WeightGradient& product);
  void add_values(int64_t offset, std::span<const float> values);

  // row <- keep row + scale g; with keep = 0 the old values are never read. `row` may be row().
  // Cost: 2 B out in flops a product, one pass over the row.
  void add_to(std::span<float> row, float scale, float keep = 1) const;

  // Writes the inner products, in float64, of all with all: gram [n, n]. REQUIRES: gradients in
  // factors are of one model. Cost: n^2/2 B^2 (out + in) multiplications for n gradients in
  // factors; one pass over the rows; B out in for each pair of a row and a gradient in factors.
  using Records = std::span<const GradientRecord* const>;
  static void gram(Records gradients, std::span<double> gram);

 private:
  // Where the values stand in floats_, or in row_.
  struct Values {
    int64_t offset;
    std::size_t at, size;
  };
  struct Factors {
    WeightGradient product;  // its pointers are set when it is asked for
    std::size_t deltas_at, inputs_at;
  };

  WeightGradient product(std::size_t i) const;
  std::span<const float> values(std::size_t i) const;
  std::size_t copy(const float* from, int64_t size);
  double product_with(std::span<const float> row) const;
  // Both write the lower triangle: of gradients of one form, and of one layer's factors.
  static void add_alike(Records gradients, std::span<double> gram);
  static void add_products(Records gradients, std::size_t part, std::span<double> gram);

  std::span<float> row_;
  AlignedFloats floats_;  // of all parts
  std::vector<Factors> factors_;
  std::vector<Values> values_;
};

}  // namespace hanse
