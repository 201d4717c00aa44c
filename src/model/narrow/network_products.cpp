#include "narrow/network_products.hpp"

#include <array>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "narrow/bfloat16_product.hpp"

namespace hanse {

namespace {

using torch::autograd::AutogradContext;
using Tensors = torch::autograd::variable_list;

at::Tensor rounded(const at::Tensor& values) { return values.to(at::kBFloat16); }

// a b of bfloat16 numbers.
at::Tensor times(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = at::empty({a.size(0), a.size(1), b.size(2)}, a.options().dtype(at::kFloat));
  multiply_bfloat16(out, a, b);
  return out;
}

// Keeps the rounded factors, and who wants a gradient.
void keep(AutogradContext* context, const at::Tensor& a, const at::Tensor& b, bool wants_a,
          bool wants_b) {
  context->save_for_backward({a, b});
  context->saved_data["a"] = wants_a;
  context->saved_data["b"] = wants_b;
}

struct Kept {
  explicit Kept(AutogradContext* context)
      : wants_a(context->saved_data["a"].toBool()), wants_b(context->saved_data["b"].toBool()) {
    const Tensors saved = context->get_saved_variables();
    a = saved[0];
    b = saved[1];
  }
  at::Tensor a, b;
  bool wants_a, wants_b;
};

// `ready`: b rounded.
struct NarrowProduct : torch::autograd::Function<NarrowProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& a, const at::Tensor& b,
                            const at::Tensor& ready) {
    const at::Tensor left = rounded(a);
    keep(context, left, ready, a.requires_grad(), b.requires_grad());
    return times(left, ready);
  }

  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Kept kept(context);
    const at::Tensor delta = rounded(gradients[0]);
    return {kept.wants_a ? times(delta, kept.b.transpose(1, 2)) : at::Tensor(),
            kept.wants_b ? times(kept.a.transpose(1, 2), delta) : at::Tensor(), at::Tensor()};
  }
};

struct NarrowConvolution : torch::autograd::Function<NarrowConvolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& kernel,
                            int64_t stride, int64_t padding, int64_t groups) {
    const at::Tensor images = rounded(x), weights = rounded(kernel);
    keep(context, images, weights, x.requires_grad(), kernel.requires_grad());
    context->saved_data["sizes"] = std::vector<int64_t>{stride, padding, groups};
    return at::conv2d(images.to(at::kFloat), weights.to(at::kFloat), {}, stride, padding, 1,
                      groups);
  }

  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Kept kept(context);
    const auto sizes = context->saved_data["sizes"].toIntVector();
    const std::array<int64_t, 2> strides{sizes[0], sizes[0]}, paddings{sizes[1], sizes[1]};
    const auto [images, weights, none] = at::convolution_backward(
        rounded(gradients[0]).to(at::kFloat), kept.a.to(at::kFloat), kept.b.to(at::kFloat),
        c10::nullopt, strides, paddings, {1, 1}, /*transposed=*/false, {0, 0}, sizes[2],
        {kept.wants_a, kept.wants_b, false});
    return {images, weights, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

NetworkProducts::Factor NetworkProducts::factor(const at::Tensor& matrices) const {
  Factor factor(matrices);
  if (!narrow_) return factor;
  const at::NoGradGuard no_grad;
  factor.rounded = rounded(matrices);
  return factor;
}

at::Tensor NetworkProducts::multiply(const at::Tensor& a, const Factor& b) const {
  if (!narrow_) return at::bmm(a, b.values);
  return NarrowProduct::apply(a, b.values,
                              b.rounded.defined() ? b.rounded : factor(b.values).rounded);
}

at::Tensor NetworkProducts::add(const at::Tensor& c, const at::Tensor& a, const Factor& b) const {
  return narrow_ ? multiply(a, b) + c : at::baddbmm(c, a, b.values);
}

at::Tensor NetworkProducts::multiply_any(const at::Tensor& a, const at::Tensor& b) const {
  if (!narrow_) return at::matmul(a, b);
  auto sizes = a.sizes().vec();
  sizes.back() = b.size(-1);
  return multiply(a.reshape({-1, a.size(-2), a.size(-1)}), b.reshape({-1, b.size(-2), b.size(-1)}))
      .view(sizes);
}

at::Tensor NetworkProducts::convolve(const at::Tensor& x, const at::Tensor& kernel,
                                     const at::Tensor& bias, int64_t stride, int64_t padding,
                                     int64_t groups) const {
  if (!narrow_) return at::conv2d(x, kernel, bias, stride, padding, 1, groups);
  const at::Tensor y = NarrowConvolution::apply(x, kernel, stride, padding, groups);
  return bias.defined() ? y + bias.view({-1, 1, 1}) : y;
}

}  // namespace hanse
