// Adapters of a trained part, and the step that makes their gradients of the whole model's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/model/trained_part.hpp"
#include "layers/adapter.hpp"

namespace hanse {

// Where a factor lies: in the trained row, or, frozen, behind the whole row's frozen tensors.
struct FactorPlace {
  bool moves = true;
  int64_t at = 0;

  const float* in(const float* row, const float* frozen) const {
    return (moves ? row : frozen) + at;
  }
};

struct PartAdapter : AdapterPlace {
  std::string name;  // of the matrix
  MatrixUse use = MatrixUse::kDense;
  FactorPlace a, b;
  const uint16_t* narrow = nullptr;  // W_0 in bfloat16; null: it lies in the whole row
  bool split = false;                // the network computes with W_0, A and B
  int64_t named = 0;                 // where A and behind it B begin in all_tensors()

  int64_t factors() const { return a_size() + b_size(); }
  // A starts at random and B from 0, unless A alone moves.
  bool starts_with_b() const { return a.moves && !b.moves; }
  int64_t random_size() const { return starts_with_b() ? b_size() : a_size(); }
  // Writes W.
  void form(const float* frozen, AdapterFactors factors, float* w) const {
    narrow != nullptr ? expand(narrow, factors, w) : expand(frozen + weight, factors, w);
  }
  AdapterFactors factors_in(const float* row, const float* frozen) const {
    return {a.in(row, frozen), b.in(row, frozen)};
  }
};

// The dropout of an adapter's input: one mask for all samples of a batch, since the weights are
// formed once for all. Of a dense layer it is over the columns of A, of one that is stored the
// other way round over the rows of B, and an embedding has none.
class AdapterDropout {
 public:
  // Draws a mask, and returns the factors with the dropped inputs out. They live until the next
  // call.
  AdapterFactors drop(const PartAdapter& place, AdapterFactors factors, double share,
                      RandomStream& noise);
  // Applies the mask of drop() to the gradients of its factors; null: that factor does not move.
  void mask(const PartAdapter& place, float* da, float* db) const;

 private:
  AlignedFloats mask_, dropped_;
};

// Turns the parts of the whole model's gradient into those of the trained row.
class PartStep final : public RowStep {
 public:
  PartStep(const std::vector<PartTensor>& trained, const std::vector<PartAdapter>& adapters);

  // The factors are read until finish(), where their gradients reach the target.
  void start(const std::vector<AdapterFactors>& factors, const GradientTarget& target);
  void finish(const std::vector<AdapterDropout>& dropouts);

  bool wants(int64_t offset) const override {
    const auto piece = from(offset);
    return piece != pieces_.end() && piece->begin <= offset && wants(*piece);
  }
  bool take(const WeightGradient& product) override;
  void apply(int64_t offset, const float* gradient, int64_t size) override;

 private:
  // A tensor [begin, end) of the whole row that is trained, or that has an adapter.
  struct Piece {
    int64_t begin, end;
    int64_t own;               // where the tensor begins in the trained row
    AdapterGradient* adapter;  // null: it is trained itself
  };

  bool wants(const Piece& piece) const;

  // The first piece that ends behind `offset`.
  std::vector<Piece>::const_iterator from(int64_t offset) const {
    return std::ranges::upper_bound(pieces_, offset, {}, &Piece::end);
  }

  const std::vector<PartAdapter>& adapters_;
  std::vector<AdapterGradient> gradients_;
  std::vector<Piece> pieces_;
  GradientTarget target_;
};

}  // namespace hanse
