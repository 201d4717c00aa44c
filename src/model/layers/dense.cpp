#include "dense.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "dropout.hpp"
#include "kernels/layer_kernels.hpp"

namespace hanse {

DenseStack::DenseStack(ParameterLayout& layout, const std::vector<int64_t>& widths,
                       const DenseOptions& options)
    : options_(options) {
  if (options.bfloat16) bfloat16_.emplace();
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    Layer layer{.in = widths[l], .out = widths[l + 1]};
    const std::string name = "fc" + std::to_string(l + 1);
    layer.weight = layout.add(name + ".weight", {layer.out, layer.in}, layer.in);
    if (options.bias) layer.bias = layout.add(name + ".bias", {layer.out}, layer.in);
    layers_.push_back(std::move(layer));
  }
  grow(bias_delta_, *std::max_element(widths.begin(), widths.end()));
}

// to <- relu(from), in training with dropout; returns the factor of the kept units.
float DenseStack::activate(const float* from, float* to, int64_t size, double dropout,
                           RandomStream* noise) {
  if (noise == nullptr || dropout == 0.0) {
    for (int64_t i = 0; i < size; ++i) to[i] = from[i] > 0.0f ? from[i] : 0.0f;
    return 1.0f;
  }
  const uint16_t* bits = grow(noise_, size);
  noise->fill({reinterpret_cast<uint8_t*>(noise_.data()), static_cast<std::size_t>(size) * 2});
  const DropoutRule rule(dropout);
  for (int64_t i = 0; i < size; ++i) {
    const float rectified = from[i] > 0.0f ? from[i] : 0.0f;
    to[i] = bits[i] >= rule.threshold ? rectified * rule.scale : 0.0f;
  }
  return rule.scale;
}

float* DenseStack::forward(const float* row, const float* input, int64_t rows,
                           RandomStream* noise) {
  rows_ = rows;
  input_ = input;
  if (options_.rectify_input) {
    const int64_t size = rows * layers_.front().in;
    float* rectified = grow(rectified_, size);
    rectified_scale_ = activate(input, rectified, size, options_.input_dropout, noise);
    input_ = rectified;
  }
  const float* x = input_;
  for (Layer& layer : layers_) {
    float* y = grow(layer.output, rows * layer.out);
    repeat_row(options_.bias ? row + layer.bias : nullptr, rows, layer.out, y);
    if (bfloat16_) {
      bfloat16_->add_product(rows, layer.out, layer.in, x, row + layer.weight, y);
    } else {
      add_product(rows, layer.out, layer.in, x, row + layer.weight, y);
    }
    if (&layer != &layers_.back()) {
      layer.backward_scale = activate(y, y, rows * layer.out, options_.hidden_dropout, noise);
    }
    x = y;
  }
  return layers_.back().output.data();
}

// In every layer dx [B, in] <- dy W, then W <- keep W + scale dy^T x and b <- keep b + scale sum_r
// dy_r.
float* DenseStack::backward(const float* row, const GradientTarget& target,
                            const float* of_last_input) {
  float* delta = layers_.back().output.data();
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const int64_t in = layer.in, out = layer.out;
    const float* x = l > 0 ? layers_[l - 1].output.data() : input_;
    const float scale = l > 0 ? layers_[l - 1].backward_scale : rectified_scale_;
    float* delta_x = l > 0 || options_.rectify_input ? grow(delta_[l % 2], rows_ * in) : nullptr;
    const WeightGradient gradient{.offset = layer.weight,
                                  .out = out,
                                  .in = in,
                                  .samples = rows_,
                                  .deltas = delta,
                                  .inputs = x};
    if (bfloat16_) {
      bfloat16_->add_gradient(gradient, row + layer.weight, target, delta_x);
    } else {
      target.add(gradient, row + layer.weight, delta_x);
    }
    if (options_.bias) target.add_bias(layer.bias, delta, rows_, out, bias_delta_.data());
    if (of_last_input != nullptr && delta_x != nullptr) {
      for (int64_t i = 0; i < rows_ * in; ++i) delta_x[i] += of_last_input[i];
    }
    of_last_input = nullptr;
    if (delta_x != nullptr) activation_backward(x, rows_ * in, scale, delta_x);
    delta = delta_x;
  }
  return delta;
}

const float* DenseStack::last_input() const {
  return layers_.size() > 1 ? layers_[layers_.size() - 2].output.data() : input_;
}

int64_t DenseStack::last_width() const {
  return layers_.size() > 1 || options_.rectify_input ? layers_.back().in : 0;
}

int64_t DenseStack::record_product_cost(int64_t rows) const {
  if (options_.bfloat16) return 0;
  int64_t cost = 0;
  for (const Layer& layer : layers_) cost += rows * rows * (layer.in + layer.out) + layer.out;
  return cost;
}

// Derivatives along a direction of the parameters (Pearlmutter 1994): d stands for the derivative
// along v, in which W, b move by V, c.

// dy = x V^T + c + dx W^T
float* DenseStack::forward_tangent(const float* row, const float* v, const float* of_input) {
  const float* x = input_;
  const float* dx = nullptr;  // the input stays as it is
  if (options_.rectify_input) {
    const int64_t size = rows_ * layers_.front().in;
    float* rectified = grow(rectified_tangent_, size);
    std::copy_n(of_input, size, rectified);
    activation_backward(x, size, 1, rectified);
    dx = rectified;
  }
  for (Layer& layer : layers_) {
    float* dy = grow(layer.tangent, rows_ * layer.out);
    repeat_row(options_.bias ? v + layer.bias : nullptr, rows_, layer.out, dy);
    multiply(rows_, layer.out, layer.in, 1, {x, layer.in}, {v + layer.weight, layer.in, CblasTrans},
             1, dy, layer.out);
    if (dx != nullptr) {
      multiply(rows_, layer.out, layer.in, 1, {dx, layer.in},
               {row + layer.weight, layer.in, CblasTrans}, 1, dy, layer.out);
    }
    if (&layer != &layers_.back())
      activation_backward(layer.output.data(), rows_ * layer.out, 1, dy);
    x = layer.output.data();
    dx = dy;
  }
  return layers_.back().tangent.data();
}

// d(delta^T x) = ddelta^T x + delta^T dx, and behind it d(delta W) = ddelta W + delta V
DenseStack::InputDelta DenseStack::backward_tangent(const float* row, const float* v,
                                                    const float* tangent, float* out) {
  const float* delta = layers_.back().output.data();
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const float* x = l > 0 ? layers_[l - 1].output.data() : input_;
    const Matrix w{row + layer.weight, layer.in};
    float* gradient = out + layer.weight;
    multiply(layer.out, layer.in, rows_, 1, {tangent, layer.out, CblasTrans}, {x, layer.in}, 0,
             gradient, layer.in);
    if (options_.bias) sum_rows(tangent, rows_, layer.out, out + layer.bias);
    if (l == 0 && !options_.rectify_input) return {};
    const auto& dx = l > 0 ? layers_[l - 1].tangent : rectified_tangent_;
    multiply(layer.out, layer.in, rows_, 1, {delta, layer.out, CblasTrans}, {dx.data(), layer.in},
             1, gradient, layer.in);
    const int64_t size = rows_ * layer.in;
    float* below = grow(delta_[l % 2], size);
    float* below_tangent = grow(delta_tangent_[l % 2], size);
    multiply(rows_, layer.in, layer.out, 1, {delta, layer.out}, w, 0, below, layer.in);
    multiply(rows_, layer.in, layer.out, 1, {tangent, layer.out}, w, 0, below_tangent, layer.in);
    multiply(rows_, layer.in, layer.out, 1, {delta, layer.out}, {v + layer.weight, layer.in}, 1,
             below_tangent, layer.in);
    activation_backward(x, size, 1, below);
    activation_backward(x, size, 1, below_tangent);
    delta = below;
    tangent = below_tangent;
  }
  return {delta, tangent};
}

}  // namespace hanse
