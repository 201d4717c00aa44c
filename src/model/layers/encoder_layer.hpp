// An encoder layer of a transformer, gradient in closed form.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/random.hpp"
#include "hanse/model/layout.hpp"
#include "kernels/attention_kernels.hpp"
#include "layers/token_dense.hpp"
#include "sequences.hpp"

namespace hanse {

// With the norm behind each residual (Vaswani et al. 2017), as torch.nn.TransformerEncoderLayer:
//
//   y = norm1(x + dropout(attention(x))),  z = norm2(y + dropout(W2 dropout(relu(W1 y)))).
//
// A sample passes the whole layer while its values are in the cache, there and back; threads have
// samples of their own. The gradients of the weights are products of all samples. No deltas are
// computed below the lowest tensor that the target wants.
// Cost of a training step: 6 rows length (4 d^2 + 2 d units + 2 length d) flops, half of the last
// term where positions look back alone. Memory: a value 17 d + 2 units times a token, and length
// floats a token and head.
class EncoderLayer {
 public:
  // Appends the tensors of torch's layer, with `name` before theirs.
  EncoderLayer(ParameterLayout& layout, const std::string& name, const SequenceSizes& sizes,
               bool in_bfloat16);

  // z [rows, length, d] of x, until the next call. Dropout is drawn from `noise`; null: evaluation,
  // and no backward() follows. x must be unchanged in backward().
  const float* forward(const float* row, const float* x, int64_t rows, RandomStream* noise);

  // Takes the loss's gradient by z, and hands the layer's to the target, which may be the row of
  // forward() itself. Returns the gradient by x where `below` wants it, else null.
  const float* backward(const float* row, const float* delta, const GradientTarget& target,
                        bool below);

  bool is_wanted(const GradientTarget& target) const { return depth(target, false) >= 0; }

 private:
  struct Norm {
    int64_t weight, bias;    // offsets in the row
    AlignedFloats normal;    // [rows, length, d]
    AlignedFloats inverses;  // [rows, length]
  };

  // The way back, down to what is wanted; kNorm2's own gradient needs no delta of the layer's.
  enum Depth { kNorm2, kLinear2, kLinear1, kNorm1, kOutProjection, kInProjection, kBelow };

  int depth(const GradientTarget& target, bool below) const;  // -1: nothing is wanted
  void draw(int64_t rows, RandomStream* noise);
  void encode(const float* row, int64_t sample, float* room);
  void retreat(const float* row, int64_t sample, const float* delta, int depth, float* room);
  void attend_back(int64_t sample, float* room);
  AttentionHead head(int64_t sample, int64_t number) const;
  void normalize(const float* row, Norm& norm, int64_t sample, const float* x,
                 const AlignedFloats& mask, float* y);
  void normalize_back(const float* row, const Norm& norm, int64_t sample, const float* delta,
                      float* dz) const;
  void add_gradients(Norm& norm, const float* delta, const GradientTarget& target);
  int64_t length() const { return sizes_.length; }
  int64_t d() const { return sizes_.embedding; }
  float* room(int64_t share) { return rooms_[static_cast<std::size_t>(share)].data(); }
  void make_rooms();

  TokenDense& in_projection() { return dense_[0]; }
  TokenDense& out_projection() { return dense_[1]; }
  TokenDense& linear1() { return dense_[2]; }
  TokenDense& linear2() { return dense_[3]; }

  // What backward() needs of the last forward(), and what only one of them needs.
  struct Values {
    AlignedFloats qkv;       // [rows, length, 3 d]
    AlignedFloats shares;    // [rows, heads, length, length in whole lines]
    AlignedFloats attended;  // [rows, length, d] the heads' values
    AlignedFloats added;     // [rows, length, d] what a residual adds
    AlignedFloats y, z;      // [rows, length, d]
    AlignedFloats hidden;    // [rows, length, units]
  };
  // Gradients by values; of the sums that norms read, and of those under dropout.
  struct Deltas {
    AlignedFloats sum2, fed, hidden, y, sum1, out, attended, qkv, x;
  };

  const AttentionKernels* kernels_ = &attention_kernels();
  SequenceSizes sizes_;
  bool narrow_;
  std::array<int64_t, 4> widths_;  // of masks_, a sample
  std::vector<TokenDense> dense_;  // in_proj, out_proj, linear1, linear2
  Norm norm1_{}, norm2_{};
  const float* x_ = nullptr;
  int64_t rows_ = 0;
  bool drops_ = false, trains_ = false;  // in the last forward()
  std::array<AlignedFloats, 4> masks_;   // of shares, attention, hidden units and their result
  Values values_;
  Deltas deltas_;
  AlignedFloats sums_;                // [2 d] gradients of a norm
  std::vector<AlignedFloats> rooms_;  // of the threads
};

}  // namespace hanse
