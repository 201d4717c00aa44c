// Derivatives of dense layers along a direction of the parameters (Pearlmutter 1994): d stands for
// the derivative along v, in which W, b move by V, c.
#include <algorithm>

#include "buffers.hpp"
#include "dense.hpp"
#include "tiles.hpp"

namespace hanse {

namespace {

// ReLU passes the derivatives of the units that it lets through.
void rectify_tangent(const float* output, int64_t size, float* tangent) {
  for (int64_t i = 0; i < size; ++i) tangent[i] = output[i] > 0.0F ? tangent[i] : 0.0F;
}

}  // namespace

// dy = x V^T + c + dx W^T
float* DenseStack::forward_tangent(const float* row, const float* v) {
  const float* x = input_;
  const float* dx = nullptr;  // the input stays as it is
  for (Layer& layer : layers_) {
    float* dy = grow(layer.tangent, rows_ * layer.out);
    for (int64_t r = 0; r < rows_; ++r) {
      if (options_.bias) {
        std::copy_n(v + layer.bias, layer.out, dy + r * layer.out);
      } else {
        std::fill_n(dy + r * layer.out, layer.out, 0.0F);
      }
    }
    multiply(rows_, layer.out, layer.in, 1, {x, layer.in}, {v + layer.weight, layer.in, CblasTrans},
             1, dy, layer.out);
    if (dx != nullptr) {
      multiply(rows_, layer.out, layer.in, 1, {dx, layer.in},
               {row + layer.weight, layer.in, CblasTrans}, 1, dy, layer.out);
    }
    if (&layer != &layers_.back()) rectify_tangent(layer.output.data(), rows_ * layer.out, dy);
    x = layer.output.data();
    dx = dy;
  }
  return layers_.back().tangent.data();
}

// d(delta^T x) = ddelta^T x + delta^T dx, and behind it d(delta W) = ddelta W + delta V
void DenseStack::backward_tangent(const float* row, const float* v, const float* tangent,
                                  float* out) {
  const float* delta = layers_.back().output.data();
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const float* x = l > 0 ? layers_[l - 1].output.data() : input_;
    const Matrix w{row + layer.weight, layer.in};
    float* gradient = out + layer.weight;
    multiply(layer.out, layer.in, rows_, 1, {tangent, layer.out, CblasTrans}, {x, layer.in}, 0,
             gradient, layer.in);
    if (options_.bias) {
      std::fill_n(out + layer.bias, layer.out, 0.0F);
      for (int64_t r = 0; r < rows_; ++r) {
        for (int64_t o = 0; o < layer.out; ++o) out[layer.bias + o] += tangent[r * layer.out + o];
      }
    }
    if (l == 0) return;
    multiply(layer.out, layer.in, rows_, 1, {delta, layer.out, CblasTrans},
             {layers_[l - 1].tangent.data(), layer.in}, 1, gradient, layer.in);
    const int64_t size = rows_ * layer.in;
    float* below = grow(delta_[l % 2], size);
    float* below_tangent = grow(delta_tangent_[l % 2], size);
    multiply(rows_, layer.in, layer.out, 1, {delta, layer.out}, w, 0, below, layer.in);
    multiply(rows_, layer.in, layer.out, 1, {tangent, layer.out}, w, 0, below_tangent, layer.in);
    multiply(rows_, layer.in, layer.out, 1, {delta, layer.out}, {v + layer.weight, layer.in}, 1,
             below_tangent, layer.in);
    rectify_tangent(x, size, below);
    rectify_tangent(x, size, below_tangent);
    delta = below;
    tangent = below_tangent;
  }
}

}  // namespace hanse
