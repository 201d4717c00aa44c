#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/base/index.hpp"
#include "kernels/shares.hpp"
#include "layers/dropout.hpp"
#include "layers/encoder_layer.hpp"
#include "network_model.hpp"
#include "sequences.hpp"

namespace hanse {

namespace {

class TransformerModel final : public NetworkModel {
 public:
  TransformerModel(const SequenceSizes& sizes, LossPtr loss, bool in_bfloat16)
      : NetworkModel(std::move(loss)), sizes_(sizes) {
    representation_width_ = sizes.embedding;
    layout_.add("embedding.weight", {sizes.vocabulary, sizes.embedding}, sizes.embedding);
    layout_.mark("embedding.weight", MatrixUse::kEmbedding);
    for (int64_t i = 0; i < sizes.layers; ++i) {
      layers_.emplace_back(layout_, "layers." + std::to_string(i) + ".", sizes, in_bfloat16);
    }
    const int64_t weight =
        layout_.add("fc.weight", {sizes.outputs, sizes.embedding}, sizes.embedding);
    const int64_t bias = layout_.add("fc.bias", {sizes.outputs}, sizes.embedding);
    head_.emplace(TokenDense::Place{weight, bias}, sizes.outputs, sizes.embedding, in_bfloat16);
    positions_ = sinusoidal_positions(sizes.length, sizes.embedding);
    const auto d = static_cast<double>(sizes.embedding), length = static_cast<double>(sizes.length);
    const double a_token = 4 * d * d + 2 * d * static_cast<double>(sizes.units) + 2 * length * d;
    add_layer_work(static_cast<double>(sizes.layers) * length * a_token);
    add_layer_work((sizes.every ? length : 1) * d * static_cast<double>(sizes.outputs));
  }

  int64_t vocabulary() const override { return sizes_.vocabulary; }
  int64_t evaluation_rows() const override { return 64; }

 private:
  // What the last layer reads of a batch: each position, or their mean.
  int64_t places(int64_t rows) const { return sizes_.every ? rows * sizes_.length : rows; }
  int64_t values(int64_t rows) const { return rows * sizes_.length * sizes_.embedding; }

  float* forward(const float* row, const Batch& batch, RandomStream* noise) override {
    const float* x = embed(row, batch, noise);
    for (EncoderLayer& layer : layers_) x = layer.forward(row, x, batch.rows, noise);
    last_ = sizes_.every ? x : mean(x, batch.rows);
    head_->load(row);
    const int64_t d = sizes_.embedding, outputs = sizes_.outputs, count = places(batch.rows);
    grow(logits_, count * outputs);
    in_shares(count, [&](int64_t, int64_t first, int64_t end) {
      head_->multiply(last_ + first * d, end - first, logits_.data() + first * outputs);
    });
    return logits_.data();
  }

  const float* representation() override { return last_; }

  // [rows, length, embedding]: each token's row of the table times sqrt(d), and its position.
  const float* embed(const float* row, const Batch& batch, RandomStream* noise) {
    const int64_t d = sizes_.embedding;
    ids_ = token_ids(batch, sizes_);
    const int64_t size = values(batch.rows);
    float* embedded = grow(embedded_, size);
    for (int64_t token = 0; token < std::ssize(ids_); ++token) {
      const float* from = row + ids_[to_index(token)] * d;
      const float* position = positions_.data() + token % sizes_.length * d;
      float* to = embedded + token * d;
      for (int64_t i = 0; i < d; ++i) to[i] = from[i] * scale() + position[i];
    }
    drops_ = noise != nullptr && sizes_.dropout > 0;
    if (drops_) {
      draw_mask(sizes_.dropout, *noise, {grow(mask_, size), to_index(size)});
      apply_mask(embedded, mask_.data(), size, embedded);
    }
    return embedded;
  }

  float scale() const {
    return static_cast<float>(std::sqrt(static_cast<double>(sizes_.embedding)));
  }

  // [rows, embedding]: the mean over the positions of x.
  const float* mean(const float* x, int64_t rows) {
    const int64_t d = sizes_.embedding, length = sizes_.length;
    float* to = grow(mean_, rows * d);
    for (int64_t r = 0; r < rows; ++r, to += d) {
      sum_rows(x + r * length * d, length, d, to);
      for (int64_t i = 0; i < d; ++i) to[i] /= static_cast<float>(length);
    }
    return mean_.data();
  }

  void backward(const float* row, const Batch& batch, const GradientTarget& target) override {
    // Layers below the first that is wanted are left out, and it needs no delta of its input.
    std::size_t first = 0;
    const bool wants_table = target.wants(0);
    while (!wants_table && first < layers_.size() && !layers_[first].is_wanted(target)) ++first;
    const float* delta = head_backward(row, batch.rows, target, first < layers_.size());
    for (std::size_t i = layers_.size(); i-- > first;) {
      delta = layers_[i].backward(row, delta, target, i > first || wants_table);
    }
    if (wants_table) add_table_gradient(delta, batch.rows, target);
  }

  // The delta [rows, length, embedding] of what the last encoder layer gives, or null where no
  // layer is wanted.
  const float* head_backward(const float* row, int64_t rows, const GradientTarget& target,
                             bool below) {
    const int64_t d = sizes_.embedding, outputs = sizes_.outputs, count = places(rows);
    if (below) {
      head_->load_back(row);
      grow(last_delta_, count * d);
      in_shares(count, [&](int64_t, int64_t first, int64_t end) {
        head_->take_back(logits_.data() + first * outputs, end - first,
                         last_delta_.data() + first * d);
      });
      add_representation_delta(last_delta_.data());
    }
    head_->add_gradient(last_, logits_.data(), count, target);
    if (!below) return nullptr;
    return sizes_.every ? last_delta_.data() : spread(rows);
  }

  // Every position has an equal part of the mean's delta.
  const float* spread(int64_t rows) {
    const int64_t d = sizes_.embedding, length = sizes_.length;
    float* mean = last_delta_.data();
    float* to = grow(spread_, values(rows));
    for (int64_t r = 0; r < rows; ++r, mean += d, to += length * d) {
      for (int64_t i = 0; i < d; ++i) mean[i] /= static_cast<float>(length);
      repeat_row(mean, length, d, to);
    }
    return spread_.data();
  }

  void add_table_gradient(const float* delta, int64_t rows, const GradientTarget& target) {
    const int64_t d = sizes_.embedding, size = sizes_.vocabulary * d;
    if (drops_) {
      float* dropped = grow(table_delta_, values(rows));
      apply_mask(delta, mask_.data(), values(rows), dropped);
      delta = dropped;
    }
    table_gradient_.assign(to_index(size), 0.0F);
    for (const int64_t id : ids_) {
      float* sum = table_gradient_.data() + id * d;
      for (int64_t i = 0; i < d; ++i) sum[i] += delta[i] * scale();
      delta += d;
    }
    target.add(0, table_gradient_.data(), size);
  }

  SequenceSizes sizes_;
  std::vector<EncoderLayer> layers_;
  std::optional<TokenDense> head_;
  std::vector<float> positions_;  // [length, embedding]
  std::vector<int64_t> ids_;      // [rows, length]
  bool drops_ = false;            // in the last forward()
  AlignedFloats mask_;            // [rows, length, embedding] of the embedded tokens ...
  AlignedFloats embedded_;        // ... and these under it
  AlignedFloats mean_;            // [rows, embedding]
  const float* last_ = nullptr;   // what the last layer reads
  AlignedFloats logits_;          // [rows, positions, outputs], then their deltas
  AlignedFloats last_delta_;      // of last_
  AlignedFloats spread_;          // [rows, length, embedding]
  AlignedFloats table_delta_;     // likewise, of the embedded tokens before dropout
  AlignedFloats table_gradient_;  // [vocabulary, embedding]
};

}  // namespace

std::unique_ptr<Model> make_transformer(const ModelCase& c) {
  return std::make_unique<TransformerModel>(transformer_sizes(c), c.loss, is_bfloat16(c.options));
}

}  // namespace hanse
