#include "graph_reference.hpp"

#include <cmath>

namespace hanse {

namespace {

at::Tensor rounded(const at::Tensor& x) { return x.to(at::kBFloat16).to(x.scalar_type()); }

// x rounded, whose gradient is that of x.
at::Tensor factor(const at::Tensor& x) { return x + (rounded(x) - x).detach(); }

// y, whose gradient is rounded.
at::Tensor result(const at::Tensor& y) {
  if (y.requires_grad()) y.register_hook([](const at::Tensor& delta) { return rounded(delta); });
  return y;
}

at::Tensor affine(const ReferenceProducts& products, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
  return products.multiply(x, weight.t()) + bias;
}

// [rows, length, values]
at::Tensor embed(const at::Tensor& table, const at::Tensor& x) {
  return table.index_select(0, x.to(at::kLong).flatten()).view({x.size(0), x.size(1), -1});
}

// Layer norm over the last dimension.
at::Tensor normalize(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor centred = x - x.mean({-1}, true);
  return centred / (centred.pow(2).mean({-1}, true) + 1e-5).sqrt() * weight + bias;
}

at::Tensor softmax(const at::Tensor& z) { return z.exp() / z.exp().sum({-1}, true); }

at::Tensor encode(const ReferenceProducts& products, const at::Tensor& x, const at::Tensor* w) {
  constexpr int64_t kHeads = 2;
  const int64_t d = x.size(2), width = d / kHeads;
  const at::Tensor qkv = affine(products, x, w[0], w[1]);
  std::vector<at::Tensor> heads;
  for (int64_t h = 0; h < kHeads; ++h) {
    const at::Tensor q = qkv.narrow(2, h * width, width);
    const at::Tensor k = qkv.narrow(2, d + h * width, width);
    const at::Tensor v = qkv.narrow(2, 2 * d + h * width, width);
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    const at::Tensor scores = products.multiply(q * scale, k.transpose(1, 2));
    heads.push_back(products.multiply(softmax(scores), v));
  }
  const at::Tensor y = normalize(x + affine(products, at::cat(heads, 2), w[2], w[3]), w[8], w[9]);
  const at::Tensor fed = affine(products, affine(products, y, w[4], w[5]).clamp_min(0), w[6], w[7]);
  return normalize(y + fed, w[10], w[11]);
}

// Groups of channels, each with the mean and variance of its own.
at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      int64_t groups) {
  const at::Tensor grouped = x.reshape({x.size(0), groups, -1});
  const at::Tensor centred = grouped - grouped.mean({2}, true);
  const at::Tensor scaled = centred / (centred.pow(2).mean({2}, true) + 1e-5).sqrt();
  return scaled.view(x.sizes()) * weight.view({1, -1, 1, 1}) + bias.view({1, -1, 1, 1});
}

at::Tensor convolve(const ReferenceProducts& products, const at::Tensor& x, const at::Tensor* w,
                    int64_t stride, int64_t groups) {
  return group_norm(products.convolve(x, w[0], stride, w[0].size(2) / 2), w[1], w[2], groups);
}

}  // namespace

at::Tensor ReferenceProducts::multiply(const at::Tensor& a, const at::Tensor& b) const {
  return narrow ? result(at::matmul(factor(a), factor(b))) : at::matmul(a, b);
}

at::Tensor ReferenceProducts::convolve(const at::Tensor& x, const at::Tensor& kernel,
                                       int64_t stride, int64_t padding) const {
  return narrow ? result(at::conv2d(factor(x), factor(kernel), {}, stride, padding))
                : at::conv2d(x, kernel, {}, stride, padding);
}

at::Tensor lstm_logits(const std::vector<at::Tensor>& leaves, const at::Tensor& x,
                       const ReferenceProducts& products) {
  at::Tensor inputs = embed(leaves[0], x);
  at::Tensor hidden;
  std::size_t next = 1;
  for (; next + 2 < leaves.size(); next += 4) {
    hidden = at::zeros({x.size(0), leaves[next + 1].size(1)}, at::kDouble);
    at::Tensor cell = hidden;
    std::vector<at::Tensor> outputs;
    for (int64_t t = 0; t < x.size(1); ++t) {
      const at::Tensor gates =
          affine(products, inputs.select(1, t), leaves[next], leaves[next + 2]) +
          affine(products, hidden, leaves[next + 1], leaves[next + 3]);
      const auto parts = gates.chunk(4, 1);  // i, f, g, o
      cell = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
      hidden = parts[3].sigmoid() * cell.tanh();
      outputs.push_back(hidden);
    }
    inputs = at::stack(outputs, 1);
  }
  return affine(products, hidden, leaves[next], leaves[next + 1]);
}

at::Tensor transformer_logits(const std::vector<at::Tensor>& leaves, const at::Tensor& x,
                              const ReferenceProducts& products) {
  const int64_t length = x.size(1), d = leaves[0].size(1);
  at::Tensor y = embed(leaves[0], x) * std::sqrt(static_cast<double>(d));
  const at::Tensor t = at::arange(length, at::kDouble);
  std::vector<at::Tensor> columns;
  for (int64_t i = 0; i < d; ++i) {
    const double exponent = 2 * static_cast<double>(i / 2) / static_cast<double>(d);
    const at::Tensor angle = t / std::pow(10000.0, exponent);
    columns.push_back(i % 2 == 0 ? angle.sin() : angle.cos());
  }
  y = y + at::stack(columns, 1);
  std::size_t next = 1;
  for (; next + 2 < leaves.size(); next += 12) y = encode(products, y, &leaves[next]);
  return affine(products, y.sum({1}) / static_cast<double>(length), leaves[next], leaves[next + 1]);
}

at::Tensor resnet_logits(const std::vector<at::Tensor>& leaves, const at::Tensor& x, int64_t groups,
                         const ReferenceProducts& products) {
  at::Tensor y = convolve(products, x, &leaves[0], 1, groups).clamp_min(0);
  std::size_t next = 3;
  for (int64_t block = 0; block < 8; ++block) {
    const bool reshapes = block > 0 && block % 2 == 0;
    const at::Tensor inner =
        convolve(products, y, &leaves[next], reshapes ? 2 : 1, groups).clamp_min(0);
    const at::Tensor outer = convolve(products, inner, &leaves[next + 3], 1, groups);
    next += 6;
    const at::Tensor shortcut = reshapes ? convolve(products, y, &leaves[next], 2, groups) : y;
    if (reshapes) next += 3;
    y = (outer + shortcut).clamp_min(0);
  }
  return affine(products, y.mean({2, 3}), leaves[next], leaves[next + 1]);
}

}  // namespace hanse
