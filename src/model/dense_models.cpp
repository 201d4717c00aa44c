// The models of dense layers on the features themselves: kinds linear and mlp.
#include <algorithm>

#include "layers/dense.hpp"
#include "makers.hpp"
#include "network_model.hpp"

namespace hanse {

namespace {

class DenseModel : public NetworkModel {
 public:
  DenseModel(const std::vector<int64_t>& widths, LossPtr loss, const DenseOptions& options)
      : NetworkModel(std::move(loss)), stack_(layout_, widths, options) {
    representation_width_ = stack_.last_width();
    for (std::size_t i = 1; i < widths.size(); ++i) {
      add_layer_work(static_cast<double>(widths[i - 1] * widths[i]), i == 1);
    }
  }

  int64_t record_product_cost(int64_t rows) const override {
    return stack_.record_product_cost(rows);
  }

  bool has_hessian() const override { return stack_.has_tangents(); }

  void hessian_vector(std::span<const float> row, const Batch& batch, std::span<const float> v,
                      std::span<float> out) override {
    float* delta = forward(row.data(), batch, nullptr);
    loss().loss_and_delta(batch, delta);
    float* tangent = stack_.forward_tangent(row.data(), v.data());
    loss().delta_tangent(batch, delta, tangent);
    stack_.backward_tangent(row.data(), v.data(), tangent, out.data());
  }

 protected:
  bool parts_samples() const override { return stack_.parts_samples(); }
  const float* representation() override { return stack_.last_input(); }
  float* forward(const float* row, const Batch& batch, RandomStream*) override {
    return stack_.forward(row, batch.features, batch.rows, nullptr);
  }
  void backward(const float* row, const Batch&, const GradientTarget& target) override {
    stack_.backward(row, target, representation_delta());
  }

 private:
  DenseStack stack_;
};

// Many rows on many batches: the rows' weights are copied one below the other, so that a product
// reads many of them; products stay below the size from which OpenBLAS copies its operands anew
// each time, and rows are taken in blocks that stay in the second cache while every batch visits
// them: twice as fast as a product a row and batch. Memory: n inputs outputs floats.
class LinearModel final : public DenseModel {
 public:
  LinearModel(int64_t inputs, LossPtr loss, const DenseOptions& options)
      : DenseModel({inputs, loss->outputs()}, loss, options),
        inputs_(inputs),
        bias_(options.bias),
        bfloat16_(options.bfloat16) {}

  // The shape of each product depends on n and the batch's rows alone.
  void cross_losses(std::span<const float> rows, std::span<const Batch> batches,
                    std::span<double> losses) override {
    if (bfloat16_) return Model::cross_losses(rows, batches, losses);
    constexpr int64_t kBlockFloats = 128 << 10;  // 512 KiB of weights
    const int64_t weight = inputs_ * loss().outputs();
    const int64_t n = std::ssize(rows) / n_params();
    grow(weights_, n * weight);
    for (int64_t j = 0; j < n; ++j) {
      std::copy_n(rows.data() + j * n_params(), weight, weights_.data() + j * weight);
    }
    const int64_t block = std::max<int64_t>(1, kBlockFloats / weight);
    for (int64_t first = 0; first < n; first += block) {
      for (std::size_t b = 0; b < batches.size(); ++b) {
        block_losses(rows, first, std::min(block, n - first), batches[b],
                     losses.data() + static_cast<int64_t>(b) * n);
      }
    }
  }

 private:
  // Writes losses[j] of the rows j in [first, first + models). The weight stands at offset 0 of a
  // row, then the bias if there is one.
  void block_losses(std::span<const float> rows, int64_t first, int64_t models, const Batch& batch,
                    double* losses) {
    constexpr int64_t kProductLimit = 1000000;  // multiplications
    const int64_t outputs = loss().outputs(), weight = inputs_ * outputs;
    const int64_t most = std::max<int64_t>(1, kProductLimit / (batch.rows * weight));
    const std::vector<float> zeros(static_cast<std::size_t>(bias_ ? 0 : outputs));
    grow(logits_, batch.rows * outputs);
    for (int64_t done = 0; done < models; done += most) {
      const int64_t columns = std::min(most, models - done) * outputs;
      grow(product_, batch.rows * columns);
      multiply(batch.rows, columns, inputs_, 1.0f, {batch.features, inputs_},
               {weights_.data() + (first + done) * weight, inputs_, CblasTrans}, 0.0f,
               product_.data(), columns);
      for (int64_t column = 0; column < columns; column += outputs) {
        const int64_t j = first + done + column / outputs;
        const float* bias = bias_ ? rows.data() + j * n_params() + weight : zeros.data();
        for (int64_t r = 0; r < batch.rows; ++r) {
          const float* from = product_.data() + r * columns + column;
          float* to = logits_.data() + r * outputs;
          for (int64_t o = 0; o < outputs; ++o) to[o] = from[o] + bias[o];
        }
        losses[j] = loss().loss_and_delta(batch, logits_.data()) / static_cast<double>(batch.rows);
      }
    }
  }

  int64_t inputs_;
  bool bias_, bfloat16_;
  AlignedFloats weights_;  // [n outputs, inputs]
  AlignedFloats product_;  // [batch rows, models of a product x outputs]
  AlignedFloats logits_;   // [batch rows, outputs]
};

}  // namespace

std::unique_ptr<Model> make_linear(const ModelCase& c) {
  return std::make_unique<LinearModel>(
      size_of(c.sample_shape), c.loss,
      DenseOptions{.bias = c.options.bias, .bfloat16 = is_bfloat16(c.options)});
}

std::unique_ptr<Model> make_mlp(const ModelCase& c) {
  check_extents(c.options.hidden, "the widths of the hidden layers", "model.hidden");
  std::vector<int64_t> widths = {size_of(c.sample_shape)};
  widths.insert(widths.end(), c.options.hidden.begin(), c.options.hidden.end());
  widths.push_back(c.loss->outputs());
  return std::make_unique<DenseModel>(widths, c.loss,
                                      DenseOptions{.bfloat16 = is_bfloat16(c.options)});
}

}  // namespace hanse
