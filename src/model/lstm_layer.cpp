#include "lstm_layer.hpp"

#include <algorithm>
#include <cstddef>

#include <ATen/ATen.h>

#include "buffers.hpp"
#include "hanse/base/index.hpp"
#include "tiles.hpp"

namespace hanse {

namespace {

// `columns` of each of `rows` rows of `stride` values.
at::Tensor view(float* data, int64_t rows, int64_t columns, int64_t stride) {
  return at::from_blob(data, {rows, columns}, {stride, 1}, at::kFloat);
}

// out [units] <- gate deltas of one sample in one step, over the gates i, f, g, o themselves.
// dc is the loss's gradient by c_t on entry and by c_{t-1} on return; `before` is c_{t-1} or null.
void gate_deltas(int64_t units, const float* __restrict dh, const float* __restrict before,
                 const float* __restrict tanh_c, float* __restrict dc, float* __restrict gates) {
  float* __restrict i = gates;
  float* __restrict f = gates + units;
  float* __restrict g = gates + 2 * units;
  float* __restrict o = gates + 3 * units;
  for (int64_t u = 0; u < units; ++u) {
    const float d = dc[u] + dh[u] * o[u] * (1 - tanh_c[u] * tanh_c[u]);
    const float c = before == nullptr ? 0.0F : before[u];
    dc[u] = d * f[u];
    const float di = d * g[u] * i[u] * (1 - i[u]);
    g[u] = d * i[u] * (1 - g[u] * g[u]);
    i[u] = di;
    f[u] = d * c * f[u] * (1 - f[u]);
    o[u] = dh[u] * tanh_c[u] * o[u] * (1 - o[u]);
  }
}

}  // namespace

LstmLayer::LstmLayer(ParameterLayout& layout, const std::string& prefix, int64_t index,
                     int64_t inputs, int64_t units)
    : inputs_(inputs), units_(units) {
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    const auto slot = layout.add(prefix + name + std::to_string(index), std::move(shape), units);
    return layout.slots()[slot].offset;
  };
  weight_ih_ = add(".weight_ih_l", {4 * units, inputs});
  weight_hh_ = add(".weight_hh_l", {4 * units, units});
  bias_ih_ = add(".bias_ih_l", {4 * units});
  bias_hh_ = add(".bias_hh_l", {4 * units});
}

const float* LstmLayer::forward(const float* row, const float* x, int64_t length, int64_t rows) {
  row_ = row;
  x_ = x;
  length_ = length;
  rows_ = rows;
  const int64_t width = 4 * units_, samples = length * rows;
  grow(gates_, samples * width);
  for (AlignedFloats* buffer : {&cells_, &tanhs_, &hidden_}) grow(*buffer, samples * units_);
  for (int64_t u = 0; u < width; ++u) gates_[to_index(u)] = row[bias_ih_ + u] + row[bias_hh_ + u];
  for (int64_t s = 1; s < samples; ++s) {
    std::copy_n(gates_.data(), width, gates_.data() + s * width);
  }
  add_product(samples, width, inputs_, x, row + weight_ih_, gates_.data());
  for (int64_t step = 0; step < length; ++step) advance(step);
  return hidden_.data();
}

void LstmLayer::advance(int64_t step) {
  const int64_t width = 4 * units_, size = rows_ * units_;
  float* gates = gates_.data() + step * rows_ * width;
  float* c = cells_.data() + step * size;
  float* h = hidden_.data() + step * size;
  float* tanh_c = tanhs_.data() + step * size;
  if (step > 0) add_product(rows_, width, units_, h - size, row_ + weight_hh_, gates);
  view(gates, rows_, 2 * units_, width).sigmoid_();
  view(gates + 2 * units_, rows_, units_, width).tanh_();
  view(gates + 3 * units_, rows_, units_, width).sigmoid_();
  for (int64_t r = 0; r < rows_; ++r) {
    const float* __restrict gate = gates + r * width;
    for (int64_t u = 0; u < units_; ++u) {
      const float kept = step > 0 ? gate[units_ + u] * c[r * units_ + u - size] : 0.0F;
      c[r * units_ + u] = kept + gate[u] * gate[2 * units_ + u];
    }
  }
  at::Tensor out = view(tanh_c, 1, size, size);
  at::tanh_out(out, view(c, 1, size, size));
  for (int64_t r = 0; r < rows_; ++r) {
    const float* __restrict o = gates + r * width + 3 * units_;
    for (int64_t u = 0; u < units_; ++u) h[r * units_ + u] = o[u] * tanh_c[r * units_ + u];
  }
}

const float* LstmLayer::backward(const float* delta, const GradientTarget& target) {
  const int64_t width = 4 * units_, samples = length_ * rows_;
  grow(delta_x_, samples * inputs_);
  for (AlignedFloats* buffer : {&delta_h_, &delta_c_}) {
    grow(*buffer, rows_ * units_);
    std::fill(buffer->begin(), buffer->end(), 0.0F);
  }
  for (int64_t step = length_ - 1; step >= 0; --step) retreat(step, delta);
  multiply(samples, inputs_, width, 1, {gates_.data(), width}, {row_ + weight_ih_, inputs_}, 0,
           delta_x_.data(), inputs_);
  target.add({.offset = weight_ih_,
              .out = width,
              .in = inputs_,
              .samples = samples,
              .deltas = gates_.data(),
              .inputs = x_});
  target.add({.offset = weight_hh_,
              .out = width,
              .in = units_,
              .samples = samples - rows_,
              .deltas = gates_.data() + rows_ * width,
              .inputs = hidden_.data()});
  add_bias(target);
  return delta_x_.data();
}

void LstmLayer::retreat(int64_t step, const float* delta) {
  const int64_t width = 4 * units_, size = rows_ * units_;
  float* gates = gates_.data() + step * rows_ * width;
  for (int64_t i = 0; i < size; ++i) delta_h_[to_index(i)] += delta[step * size + i];
  for (int64_t r = 0; r < rows_; ++r) {
    const int64_t place = step * size + r * units_;
    gate_deltas(units_, delta_h_.data() + r * units_,
                step > 0 ? cells_.data() + place - size : nullptr, tanhs_.data() + place,
                delta_c_.data() + r * units_, gates + r * width);
  }
  if (step == 0) return;
  for_each_tile(weight_tiles(rows_, width, units_), width, units_,
                [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) {
                  multiply(rows_, n_in, n_out, 1, {gates + o, width},
                           {row_ + weight_hh_ + o * units_ + i, units_}, o == 0 ? 0.0F : 1.0F,
                           delta_h_.data() + i, units_);
                });
}

void LstmLayer::add_bias(const GradientTarget& target) {
  const int64_t width = 4 * units_;
  bias_.assign(to_index(width), 0.0F);
  for (int64_t s = 0; s < length_ * rows_; ++s) {
    const float* gates = gates_.data() + s * width;
    for (int64_t u = 0; u < width; ++u) bias_[to_index(u)] += gates[u];
  }
  target.add(bias_ih_, bias_.data(), width);
  target.add(bias_hh_, bias_.data(), width);
}

}  // namespace hanse
