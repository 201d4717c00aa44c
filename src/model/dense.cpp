#include "dense.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "buffers.hpp"
#include "dropout.hpp"
#include "linear_stack.hpp"
#include "loss.hpp"
#include "tiles.hpp"

namespace hanse {

namespace {

// A unit is kept when its 16 bits are at least `threshold`.
void rectify_and_drop(const float* from, const uint16_t* bits, int64_t size, int32_t threshold,
                      float scale, float* to) {
  for (int64_t i = 0; i < size; ++i) {
    const float rectified = from[i] > 0.0f ? from[i] : 0.0f;
    to[i] = static_cast<int32_t>(bits[i]) >= threshold ? rectified * scale : 0.0f;
  }
}

// Of ReLU and dropout together: an output above zero was kept, so no mask needs to be stored.
void activation_backward(const float* output, int64_t size, float scale, float* delta) {
  for (int64_t i = 0; i < size; ++i) delta[i] = output[i] > 0.0f ? delta[i] * scale : 0.0f;
}

}  // namespace

DenseStack::DenseStack(ParameterLayout& layout, const std::vector<int64_t>& widths,
                       const DenseOptions& options)
    : options_(options) {
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    Layer layer;
    layer.in = widths[l];
    layer.out = widths[l + 1];
    const std::string name = "fc" + std::to_string(l + 1);
    const std::size_t weight = layout.add(name + ".weight", {layer.out, layer.in}, layer.in);
    layer.weight = layout.slots()[weight].offset;
    if (options.bias) {
      const std::size_t bias = layout.add(name + ".bias", {layer.out}, layer.in);
      layer.bias = layout.slots()[bias].offset;
    }
    layers_.push_back(std::move(layer));
  }
  grow(bias_delta_, *std::max_element(widths.begin(), widths.end()));
}

// y [B, out] <- 1 b^T + x W^T
void DenseStack::layer_forward(const Layer& layer, const float* row, const float* x,
                               float* y) const {
  const float* w = row + layer.weight;
  if (options_.bias) {
    for (int64_t r = 0; r < rows_; ++r) {
      std::copy_n(row + layer.bias, layer.out, y + r * layer.out);
    }
  } else {
    std::fill_n(y, rows_ * layer.out, 0.0f);
  }
  add_product(rows_, layer.out, layer.in, x, w, y);
}

// dx [B, in] <- dy W, then W <- keep W + scale dy^T x and b <- keep b + scale sum_r dy_r.
void DenseStack::layer_backward(const Layer& layer, const float* row, const float* x,
                                const float* delta, const GradientTarget& target, float* delta_x) {
  const auto add_delta_x = [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) {
    if (delta_x == nullptr) return;
    multiply(rows_, n_in, n_out, 1.0f, {delta + o, layer.out},
             {row + layer.weight + o * layer.in + i, layer.in}, o == 0 ? 0.0f : 1.0f, delta_x + i,
             layer.in);
  };
  target.add({.offset = layer.weight,
              .out = layer.out,
              .in = layer.in,
              .samples = rows_,
              .deltas = delta,
              .inputs = x},
             add_delta_x);
  if (!options_.bias) return;
  float* __restrict sum = bias_delta_.data();
  std::fill_n(sum, layer.out, 0.0f);
  for (int64_t r = 0; r < rows_; ++r) {
    const float* d = delta + r * layer.out;
    for (int64_t o = 0; o < layer.out; ++o) sum[o] += d[o];
  }
  target.add(layer.bias, sum, layer.out);
}

// to <- relu(from), in training with dropout; returns the factor of the kept units.
float DenseStack::activate(const float* from, float* to, int64_t size, double dropout,
                           RandomStream* noise) {
  if (noise == nullptr || dropout == 0.0) {
    for (int64_t i = 0; i < size; ++i) to[i] = from[i] > 0.0f ? from[i] : 0.0f;
    return 1.0f;
  }
  if (static_cast<int64_t>(noise_.size()) < size) noise_.resize(static_cast<std::size_t>(size));
  noise->fill({reinterpret_cast<uint8_t*>(noise_.data()), static_cast<std::size_t>(size) * 2});
  const DropoutRule rule(dropout);
  rectify_and_drop(from, noise_.data(), size, rule.threshold, rule.scale, to);
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
    layer_forward(layer, row, x, y);
    if (&layer != &layers_.back()) {
      layer.backward_scale = activate(y, y, rows * layer.out, options_.hidden_dropout, noise);
    }
    x = y;
  }
  return layers_.back().output.data();
}

float* DenseStack::backward(const float* row, const GradientTarget& target) {
  const float* delta = layers_.back().output.data();
  for (std::size_t l = layers_.size(); l-- > 1;) {
    const Layer& below = layers_[l - 1];
    float* delta_x = grow(delta_[l % 2], rows_ * below.out);
    layer_backward(layers_[l], row, below.output.data(), delta, target, delta_x);
    activation_backward(below.output.data(), rows_ * below.out, below.backward_scale, delta_x);
    delta = delta_x;
  }
  const Layer& first = layers_.front();
  float* delta_input = nullptr;
  if (options_.rectify_input) delta_input = grow(delta_[0], rows_ * first.in);
  layer_backward(first, row, input_, delta, target, delta_input);
  if (delta_input != nullptr) {
    activation_backward(input_, rows_ * first.in, rectified_scale_, delta_input);
  }
  return delta_input;
}

int64_t DenseStack::record_product_cost(int64_t rows) const {
  int64_t cost = 0;
  for (const Layer& layer : layers_) cost += rows * rows * (layer.in + layer.out) + layer.out;
  return cost;
}

namespace {

class DenseModel : public Model {
 public:
  DenseModel(const std::vector<int64_t>& widths, LossKind loss, bool bias)
      : loss_(loss), stack_(layout_, widths, {.bias = bias}) {}

  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream&,
                           std::span<float> gradient) override {
    return descend(row.data(), batch, GradientTarget::store(gradient));
  }

  double sgd_step(std::span<float> row, const Batch& batch, RandomStream&, double lr,
                  double weight_decay) override {
    return descend(row.data(), batch, GradientTarget::step(row, lr, weight_decay));
  }

  double record_gradient(std::span<const float> row, const Batch& batch, RandomStream&,
                         GradientRecord& record) override {
    return descend(row.data(), batch, GradientTarget::keep_in(record));
  }
  int64_t record_product_cost(int64_t rows) const override {
    return stack_.record_product_cost(rows);
  }

  bool has_hessian() const override { return true; }

  void hessian_vector(std::span<const float> row, const Batch& batch, std::span<const float> v,
                      std::span<float> out) override {
    float* delta = stack_.forward(row.data(), batch.features, batch.rows, nullptr);
    loss_and_delta(loss_, batch, stack_.outputs(), delta);
    float* tangent = stack_.forward_tangent(row.data(), v.data());
    delta_tangent(loss_, batch, stack_.outputs(), delta, tangent);
    stack_.backward_tangent(row.data(), v.data(), tangent, out.data());
  }

  EvaluationSums evaluate(std::span<const float> row, const Batch& batch, float* scores) override {
    float* logits = stack_.forward(row.data(), batch.features, batch.rows, nullptr);
    return evaluate_logits(loss_, batch, stack_.outputs(), logits, scores);
  }

 private:
  double descend(const float* row, const Batch& batch, const GradientTarget& target) {
    float* logits = stack_.forward(row, batch.features, batch.rows, nullptr);
    const double loss = loss_and_delta(loss_, batch, stack_.outputs(), logits);
    stack_.backward(row, target);
    return loss / static_cast<double>(batch.rows);
  }

  LossKind loss_;
  DenseStack stack_;
};

class LinearModel final : public DenseModel {
 public:
  LinearModel(const std::vector<int64_t>& widths, LossKind loss, bool bias)
      : DenseModel(widths, loss, bias),
        loss_(loss),
        outputs_(widths[1]),
        models_(widths[0], widths[1], bias) {}

  void cross_losses(std::span<const float> rows, std::span<const Batch> batches,
                    std::span<double> losses) override {
    const std::size_t n = rows.size() / static_cast<std::size_t>(n_params());
    models_.visit(rows, batches, [&](std::size_t b, std::size_t j, float* logits) {
      losses[b * n + j] = loss_and_delta(loss_, batches[b], outputs_, logits) /
                          static_cast<double>(batches[b].rows);
    });
  }

 private:
  LossKind loss_;
  int64_t outputs_;
  LinearStack models_;
};

}  // namespace

std::unique_ptr<Model> make_dense_model(const std::vector<int64_t>& widths, LossKind loss,
                                        bool bias) {
  if (widths.size() == 2) return std::make_unique<LinearModel>(widths, loss, bias);
  return std::make_unique<DenseModel>(widths, loss, bias);
}

}  // namespace hanse
