#include "adapter.hpp"

#include <algorithm>

#include "hanse/base/short_floats.hpp"
#include "kernels/layer_kernels.hpp"

namespace hanse {

namespace {

// copy(first, n): writes n values of W_0 from the first-th into W.
template <class Copy>
void expand_by(const AdapterPlace& place, AdapterFactors factors, float* w, const Copy& copy) {
  constexpr int64_t kBlockFloats = 64 << 10;  // that stay in the cache between copy and product
  const int64_t in = place.in, rank = place.rank;
  const int64_t block = std::max<int64_t>(1, kBlockFloats / in);
  for (int64_t o = 0; o < place.out; o += block) {
    const int64_t n = std::min(block, place.out - o);
    copy(o * in, n * in);
    multiply(n, in, rank, place.scale, {factors.b + o * rank, rank}, {factors.a, in}, 1.0F,
             w + o * in, in);
  }
}

}  // namespace

void AdapterPlace::expand(const float* w0, AdapterFactors factors, float* w) const {
  expand_by(*this, factors, w,
            [&](int64_t first, int64_t n) { std::copy_n(w0 + first, n, w + first); });
}

void AdapterPlace::expand(const uint16_t* w0, AdapterFactors factors, float* w) const {
  expand_by(*this, factors, w, [&](int64_t first, int64_t n) {
    std::transform(w0 + first, w0 + first + n, w + first, bfloat16_value);
  });
}

void AdapterGradient::start(const AdapterPlace& place, AdapterFactors factors, Wanted wanted) {
  place_ = place;
  at_ = factors;
  wanted_ = wanted;
  if (wanted.a) da_.assign(static_cast<std::size_t>(place.a_size()), 0.0F);
  if (wanted.b) db_.assign(static_cast<std::size_t>(place.b_size()), 0.0F);
}

// Adds whole rows of dW together, and the ends of rows on their own.
void AdapterGradient::add(int64_t first, const float* dw, int64_t size) {
  const int64_t in = place_.in;
  for (const int64_t end = first + size; first < end;) {
    const int64_t o = first / in, i = first % in;
    const bool whole = i == 0 && end - first >= in;
    const int64_t n_out = whole ? (end - first) / in : 1;
    const int64_t n_in = std::min(in - i, end - first);
    add_block(o, n_out, i, n_in, dw);
    dw += n_out * n_in;
    first += n_out * n_in;
  }
}

// Adds dw [n_out, n_in], the block at (o, i) of dW.
void AdapterGradient::add_block(int64_t o, int64_t n_out, int64_t i, int64_t n_in,
                                const float* dw) {
  const int64_t in = place_.in, rank = place_.rank;
  const float scale = place_.scale;
  if (wanted_.b) {
    multiply(n_out, rank, n_in, scale, {dw, n_in}, {at_.a + i, in, CblasTrans}, 1.0F,
             db_.data() + o * rank, rank);
  }
  if (wanted_.a) {
    multiply(rank, n_in, n_out, scale, {at_.b + o * rank, rank, CblasTrans}, {dw, n_in}, 1.0F,
             da_.data() + i, in);
  }
}

void AdapterGradient::add(const WeightGradient& dw) {
  const int64_t in = place_.in, out = place_.out, rank = place_.rank;
  const float scale = place_.scale;
  float* product = grow(by_samples_, dw.samples * rank);
  if (wanted_.b) {
    multiply(dw.samples, rank, in, 1.0F, {dw.inputs, in}, {at_.a, in, CblasTrans}, 0.0F, product,
             rank);
    multiply(out, rank, dw.samples, scale, {dw.deltas, out, CblasTrans}, {product, rank}, 1.0F,
             db_.data(), rank);
  }
  if (wanted_.a) {
    multiply(dw.samples, rank, out, 1.0F, {dw.deltas, out}, {at_.b, rank}, 0.0F, product, rank);
    multiply(rank, in, dw.samples, scale, {product, rank, CblasTrans}, {dw.inputs, in}, 1.0F,
             da_.data(), in);
  }
}

}  // namespace hanse
