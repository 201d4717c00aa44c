#include <algorithm>

#include "buffers.hpp"
#include "dropout.hpp"
#include "loss.hpp"
#include "lstm_layer.hpp"
#include "sequences.hpp"
#include "tiles.hpp"

namespace hanse {

namespace {

// y = x * mask, entry by entry.
void masked(const float* x, const AlignedFloats& mask, int64_t size, AlignedFloats& y) {
  grow(y, size);
  for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) y[i] = x[i] * mask[i];
}

class LstmModel final : public Model {
 public:
  LstmModel(const SequenceSizes& sizes, LossKind loss) : sizes_(sizes), loss_(loss) {
    layout_.add("embedding.weight", {sizes.vocabulary, sizes.embedding}, sizes.embedding);
    for (int64_t k = 0; k < sizes.layers; ++k) {
      const int64_t inputs = k == 0 ? sizes.embedding : sizes.units;
      layers_.emplace_back(layout_, "lstm", k, inputs, sizes.units);
    }
    const auto weight = layout_.add("fc.weight", {sizes.outputs, sizes.units}, sizes.units);
    const auto bias = layout_.add("fc.bias", {sizes.outputs}, sizes.units);
    head_weight_ = layout_.slots()[weight].offset;
    head_bias_ = layout_.slots()[bias].offset;
    masks_.resize(layers_.size());
    dropped_.resize(layers_.size());
  }

  int64_t vocabulary() const override { return sizes_.vocabulary; }
  int64_t evaluation_rows() const override { return 64; }

  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                           std::span<float> gradient) override {
    return descend(row.data(), batch, noise, GradientTarget::store(gradient));
  }

  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double weight_decay) override {
    return descend(row.data(), batch, noise, GradientTarget::step(row, lr, weight_decay));
  }

  EvaluationSums evaluate(std::span<const float> row, const Batch& batch, float* scores) override {
    forward(row.data(), batch, nullptr);
    return evaluate_logits(loss_, batch, sizes_.outputs, logits_.data(), scores);
  }

 private:
  double descend(const float* row, const Batch& batch, RandomStream& noise,
                 const GradientTarget& target) {
    forward(row, batch, &noise);
    const double loss = loss_and_delta(loss_, batch, sizes_.outputs, logits_.data());
    const float* delta = head_backward(row, batch.rows, target);
    for (std::size_t k = layers_.size(); k-- > 0;) {
      delta = layers_[k].backward(delta, target);
      if (k > 0 && sizes_.dropout > 0) {
        masked(delta, masks_[k - 1], sizes_.length * batch.rows * sizes_.units, delta_);
        delta = delta_.data();
      }
    }
    embedding_backward(batch.rows, delta, target);
    return loss / static_cast<double>(batch.rows);
  }

  // Leaves the logits [rows, outputs] in logits_.
  void forward(const float* row, const Batch& batch, RandomStream* noise) {
    const float* x = embed(row, batch);
    for (std::size_t k = 0; k < layers_.size(); ++k) {
      x = layers_[k].forward(row, x, sizes_.length, batch.rows);
      int64_t size = sizes_.length * batch.rows * sizes_.units;
      if (k + 1 == layers_.size()) {  // only the last output is read
        x += size - batch.rows * sizes_.units;
        size = batch.rows * sizes_.units;
      }
      if (noise != nullptr && sizes_.dropout > 0) x = drop(k, x, size, *noise);
    }
    last_ = x;
    grow(logits_, batch.rows * sizes_.outputs);
    for (int64_t r = 0; r < batch.rows; ++r) {
      std::copy_n(row + head_bias_, sizes_.outputs, logits_.data() + r * sizes_.outputs);
    }
    add_product(batch.rows, sizes_.outputs, sizes_.units, x, row + head_weight_, logits_.data());
  }

  // [length, rows, embedding]
  const float* embed(const float* row, const Batch& batch) {
    ids_ = token_ids(batch, sizes_);
    float* to = grow(embedded_, sizes_.length * batch.rows * sizes_.embedding);
    for (int64_t t = 0; t < sizes_.length; ++t) {
      for (int64_t r = 0; r < batch.rows; ++r, to += sizes_.embedding) {
        std::copy_n(row + token(r, t) * sizes_.embedding, sizes_.embedding, to);
      }
    }
    return embedded_.data();
  }

  int64_t token(int64_t r, int64_t t) const {
    return ids_[static_cast<std::size_t>(r * sizes_.length + t)];
  }

  const float* drop(std::size_t k, const float* x, int64_t size, RandomStream& noise) {
    grow(masks_[k], size);
    draw_mask(sizes_.dropout, noise, std::span(masks_[k]).first(static_cast<std::size_t>(size)));
    masked(x, masks_[k], size, dropped_[k]);
    return dropped_[k].data();
  }

  // Returns the delta of the last layer's outputs [length, rows, units]: zeros but for the last.
  const float* head_backward(const float* row, int64_t rows, const GradientTarget& target) {
    const int64_t size = rows * sizes_.units;
    delta_.assign(static_cast<std::size_t>(sizes_.length * size), 0.0F);
    float* last = delta_.data() + (sizes_.length - 1) * size;
    multiply(rows, sizes_.units, sizes_.outputs, 1.0F, {logits_.data(), sizes_.outputs},
             {row + head_weight_, sizes_.units}, 0.0F, last, sizes_.units);
    for (int64_t i = 0; sizes_.dropout > 0 && i < size; ++i) {
      last[i] *= masks_.back()[static_cast<std::size_t>(i)];
    }
    target.add({.offset = head_weight_,
                .out = sizes_.outputs,
                .in = sizes_.units,
                .samples = rows,
                .deltas = logits_.data(),
                .inputs = last_});
    sum_.assign(static_cast<std::size_t>(sizes_.outputs), 0.0F);
    for (int64_t i = 0; i < rows * sizes_.outputs; ++i) {
      sum_[static_cast<std::size_t>(i % sizes_.outputs)] += logits_[static_cast<std::size_t>(i)];
    }
    target.add(head_bias_, sum_.data(), sizes_.outputs);
    return delta_.data();
  }

  // delta [length, rows, embedding]
  void embedding_backward(int64_t rows, const float* delta, const GradientTarget& target) {
    sum_.assign(static_cast<std::size_t>(sizes_.vocabulary * sizes_.embedding), 0.0F);
    for (int64_t t = 0; t < sizes_.length; ++t) {
      for (int64_t r = 0; r < rows; ++r, delta += sizes_.embedding) {
        float* to = sum_.data() + token(r, t) * sizes_.embedding;
        for (int64_t e = 0; e < sizes_.embedding; ++e) to[e] += delta[e];
      }
    }
    target.add(0, sum_.data(), sizes_.vocabulary * sizes_.embedding);
  }

  SequenceSizes sizes_;
  LossKind loss_;
  std::vector<LstmLayer> layers_;
  int64_t head_weight_ = 0, head_bias_ = 0;  // offsets in the row
  std::vector<int64_t> ids_;                 // [rows, length]
  AlignedFloats embedded_;                   // [length, rows, embedding]
  std::vector<AlignedFloats> masks_;    // a layer: of its outputs, of the last one [rows, units]
  std::vector<AlignedFloats> dropped_;  // outputs under the masks
  const float* last_ = nullptr;         // [rows, units] the head's input
  AlignedFloats logits_;                // [rows, outputs], then their deltas
  AlignedFloats delta_;                 // [length, rows, units] of a layer's outputs
  AlignedFloats sum_;                   // a gradient that is summed before it is applied
};

}  // namespace

std::unique_ptr<Model> make_lstm(const ModelOptions& options,
                                 const std::vector<int64_t>& sample_shape, LossKind loss,
                                 int64_t outputs) {
  SequenceSizes sizes = sequence_sizes(options, sample_shape, outputs);
  sizes.embedding = given_or(sizes.embedding, 8);
  sizes.units = given_or(sizes.units, 256);
  sizes.layers = given_or(sizes.layers, 2);
  return std::make_unique<LstmModel>(sizes, loss);
}

}  // namespace hanse
