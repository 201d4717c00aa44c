#include "token_dense.hpp"

#include <algorithm>

#include "hanse/base/index.hpp"
#include "kernels/attention_kernels.hpp"

namespace hanse {

namespace {

// values [count] in bfloat16.
const float* rounded(const float* values, int64_t count, AlignedFloats& room) {
  attention_kernels().round(values, count, grow(room, count));
  return room.data();
}

}  // namespace

TokenDense::TokenDense(Place place, int64_t out, int64_t in, bool in_bfloat16)
    : place_(place), out_(out), in_(in) {
  if (!in_bfloat16) return;
  weight_ = PackedMatrix(bfloat16_kernels());
  bfloat16_.emplace();
}

void TokenDense::load(const float* row) {
  weight_.load_transposed(row + place_.weight, out_, in_);
  bias_.assign(to_index(whole_lines(out_)), 0.0F);
  std::copy_n(row + place_.bias, out_, bias_.begin());
}

void TokenDense::multiply(const float* x, int64_t rows, float* y) const {
  weight_.multiply(x, rows, bias_.data(), y);
}

void TokenDense::load_back(const float* row) { weight_.load(row + place_.weight, out_, in_); }

void TokenDense::take_back(const float* delta, int64_t rows, float* dx) const {
  weight_.multiply(delta, rows, nullptr, dx);
}

void TokenDense::add_back(const float* delta, int64_t rows, float* dx) const {
  weight_.add_product(delta, rows, dx);
}

void TokenDense::add_gradient(const float* x, const float* deltas, int64_t rows,
                              const GradientTarget& target) {
  const WeightGradient g{.offset = place_.weight,
                         .out = out_,
                         .in = in_,
                         .samples = rows,
                         .deltas = deltas,
                         .inputs = x};
  if (target.wants(place_.weight)) bfloat16_ ? add_narrow(g, target) : target.add(g);
  if (target.wants(place_.bias)) target.add_bias(place_.bias, deltas, rows, out_, bias_.data());
}

// A step that takes factors, for an adapter, gets them in bfloat16.
void TokenDense::add_narrow(WeightGradient g, const GradientTarget& target) {
  if (target.step != nullptr) {
    g.deltas = rounded(g.deltas, g.samples * out_, deltas_);
    g.inputs = rounded(g.inputs, g.samples * in_, inputs_);
    if (target.step->take(g)) return;
  }
  bfloat16_->add_gradient(g, nullptr, target, nullptr);
}

}  // namespace hanse
