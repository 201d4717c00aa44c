#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "hanse/base/aligned.hpp"
#include "hanse/base/index.hpp"
#include "kernels/lstm_kernels.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/shares.hpp"
#include "layers/bfloat16_dense.hpp"
#include "layers/dropout.hpp"
#include "network_model.hpp"
#include "sequences.hpp"

namespace hanse {

namespace {

// One layer (Hochreiter and Schmidhuber 1997, with forget gates), tensors and gates in torch's
// order:
//   i, f, o = sigmoid, g = tanh of  x_t W_ih^T + b_ih + h_{t-1} W_hh^T + b_hh   [rows, units each]
//   c_t = f c_{t-1} + i g,  h_t = o tanh(c_t),  c_0 = h_0 = 0.
//
// The inputs' product is one for all steps, and so is each weight's gradient: only the recurrent
// product is left inside the loops. Threads have samples of their own there.
// Cost of a training step: 24 length rows units (inputs + units) flops. Memory: for
// each row and step 7 floats a unit and one an input, and a copy of the weights.
class LstmLayer {
 public:
  // Appends "lstm.weight_ih_lK", weight_hh, bias_ih, bias_hh; K is `index`.
  LstmLayer(ParameterLayout& layout, int64_t index, int64_t inputs, int64_t units, bool in_bfloat16)
      : inputs_(inputs), units_(units) {
    if (in_bfloat16) {
      bfloat16_.emplace();
      by_input_ = by_hidden_ = PackedMatrix(bfloat16_kernels());
    }
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      return layout.add("lstm." + name + std::to_string(index), std::move(shape), units);
    };
    offsets_.weight_ih = add("weight_ih_l", {4 * units, inputs});
    offsets_.weight_hh = add("weight_hh_l", {4 * units, units});
    offsets_.bias_ih = add("bias_ih_l", {4 * units});
    offsets_.bias_hh = add("bias_hh_l", {4 * units});
  }

  // h [length, rows, units] of x [length, rows, inputs]. It lives until the next call; `row` and
  // `x` must be unchanged in backward().
  const float* forward(const float* row, const float* x, int64_t length, int64_t rows) {
    row_ = row;
    x_ = x;
    length_ = length;
    rows_ = rows;
    const int64_t width = 4 * units_, samples = length * rows;
    by_input_.load_transposed(row + offsets_.weight_ih, width, inputs_);
    by_hidden_.load_transposed(row + offsets_.weight_hh, width, units_);
    grow(bias_, whole_lines(width));
    for (int64_t u = 0; u < width; ++u)
      bias_[to_index(u)] = row[offsets_.bias_ih + u] + row[offsets_.bias_hh + u];
    grow(gates_, samples * width);
    for (AlignedFloats* buffer : {&cells_, &tanhs_, &hidden_}) grow(*buffer, samples * units_);
    in_shares(samples, [&](int64_t, int64_t first, int64_t end) {
      by_input_.multiply(x + first * inputs_, end - first, bias_.data(),
                         gates_.data() + first * width);
    });
    in_shares(rows, [&](int64_t, int64_t first, int64_t end) {
      for (int64_t step = 0; step < length_; ++step) advance(step, first, end - first);
    });
    return hidden_.data();
  }

  // Takes delta [length, rows, units], the loss's gradient by h, and overwrites it. Hands the
  // gradient to `target`, which may be the row of forward() itself. Returns the gradient by x
  // [length, rows, inputs].
  float* backward(float* delta, const GradientTarget& target) {
    const int64_t width = 4 * units_, samples = length_ * rows_;
    by_input_.load(row_ + offsets_.weight_ih, width, inputs_);
    by_hidden_.load(row_ + offsets_.weight_hh, width, units_);
    delta_cells_.assign(to_index(rows_ * units_), 0.0F);
    in_shares(rows_, [&](int64_t, int64_t first, int64_t end) {
      for (int64_t step = length_ - 1; step >= 0; --step) retreat(step, first, end - first, delta);
    });
    grow(delta_x_, samples * inputs_);
    in_shares(samples, [&](int64_t, int64_t first, int64_t end) {
      by_input_.multiply(gates_.data() + first * width, end - first, nullptr,
                         delta_x_.data() + first * inputs_);
    });
    const auto add = [&](const WeightGradient& g) {
      if (bfloat16_) return bfloat16_->add_gradient(g, nullptr, target, nullptr);
      target.add(g);
    };
    add({.offset = offsets_.weight_ih,
         .out = width,
         .in = inputs_,
         .samples = samples,
         .deltas = gates_.data(),
         .inputs = x_});
    add({.offset = offsets_.weight_hh,
         .out = width,
         .in = units_,
         .samples = samples - rows_,
         .deltas = gates_.data() + rows_ * width,
         .inputs = hidden_.data()});
    sum_rows(gates_.data(), samples, width, bias_.data());
    target.add(offsets_.bias_ih, bias_.data(), width);
    target.add(offsets_.bias_hh, bias_.data(), width);
    return delta_x_.data();
  }

 private:
  // advance() and retreat() take `rows` samples from `first` through a step, and back.
  void advance(int64_t step, int64_t first, int64_t rows) {
    const int64_t at = (step * rows_ + first) * units_, before = at - rows_ * units_;
    float* gates = gates_.data() + 4 * at;
    if (step > 0) by_hidden_.add_product(hidden_.data() + before, rows, gates);
    kernels_->advance({.rows = rows,
                       .units = units_,
                       .gates = gates,
                       .before = step > 0 ? cells_.data() + before : nullptr,
                       .cells = cells_.data() + at,
                       .tanhs = tanhs_.data() + at,
                       .hidden = hidden_.data() + at});
  }

  void retreat(int64_t step, int64_t first, int64_t rows, float* delta) {
    const int64_t at = (step * rows_ + first) * units_, before = at - rows_ * units_;
    float* gates = gates_.data() + 4 * at;
    kernels_->retreat({.rows = rows,
                       .units = units_,
                       .gates = gates,
                       .before = step > 0 ? cells_.data() + before : nullptr,
                       .tanhs = tanhs_.data() + at,
                       .delta = delta + at,
                       .delta_cells = delta_cells_.data() + first * units_});
    if (step > 0) by_hidden_.add_product(gates, rows, delta + before);
  }

  const LstmKernels* kernels_ = &lstm_kernels();
  int64_t inputs_, units_;
  struct {
    int64_t weight_ih, weight_hh, bias_ih, bias_hh;
  } offsets_;  // in the row
  int64_t length_ = 0, rows_ = 0;
  const float* row_ = nullptr;
  const float* x_ = nullptr;
  std::optional<Bfloat16Dense> bfloat16_;
  PackedMatrix by_input_, by_hidden_;  // W^T in forward(), W in backward()
  AlignedFloats bias_;                 // [4 units] the sum of both, then their gradient
  AlignedFloats gates_;                // [length, rows, 4 units], then their deltas
  AlignedFloats cells_;                // [length, rows, units] c_t
  AlignedFloats tanhs_;                // [length, rows, units] tanh(c_t)
  AlignedFloats hidden_;               // [length, rows, units] h_t
  AlignedFloats delta_cells_;          // [rows, units] the gradient by c_t from step t + 1
  AlignedFloats delta_x_;              // [length, rows, inputs]
};

// y <- x * mask, entry by entry; returns the first.
float* masked(const float* x, const AlignedFloats& mask, int64_t size, AlignedFloats& y) {
  apply_mask(x, mask.data(), size, grow(y, size));
  return y.data();
}

class LstmModel final : public NetworkModel {
 public:
  LstmModel(const SequenceSizes& sizes, LossPtr loss, bool in_bfloat16)
      : NetworkModel(std::move(loss)), sizes_(sizes) {
    if (in_bfloat16) head_.emplace();
    representation_width_ = sizes.units;
    layout_.add("embedding.weight", {sizes.vocabulary, sizes.embedding}, sizes.embedding);
    layout_.mark("embedding.weight", MatrixUse::kEmbedding);
    for (int64_t k = 0; k < sizes.layers; ++k) {
      const int64_t inputs = k == 0 ? sizes.embedding : sizes.units;
      layers_.emplace_back(layout_, k, inputs, sizes.units, in_bfloat16);
      add_layer_work(4.0 *
                     static_cast<double>(sizes.length * sizes.units * (inputs + sizes.units)));
    }
    head_weight_ = layout_.add("fc.weight", {sizes.outputs, sizes.units}, sizes.units);
    head_bias_ = layout_.add("fc.bias", {sizes.outputs}, sizes.units);
    add_layer_work(static_cast<double>(steps() * sizes.outputs * sizes.units));
    masks_.resize(layers_.size());
    dropped_.resize(layers_.size());
  }

  int64_t vocabulary() const override { return sizes_.vocabulary; }
  int64_t evaluation_rows() const override { return 64; }

 private:
  float* forward(const float* row, const Batch& batch, RandomStream* noise) override {
    const float* x = embed(row, batch);
    for (std::size_t k = 0; k < layers_.size(); ++k) {
      x = layers_[k].forward(row, x, sizes_.length, batch.rows);
      int64_t size = sizes_.length * batch.rows * sizes_.units;
      if (k + 1 == layers_.size()) {  // of which the head reads all, or only the last output
        x += size - steps() * batch.rows * sizes_.units;
        size = steps() * batch.rows * sizes_.units;
      }
      if (noise == nullptr || sizes_.dropout == 0) continue;
      draw_mask(sizes_.dropout, *noise, {grow(masks_[k], size), to_index(size)});
      x = masked(x, masks_[k], size, dropped_[k]);
    }
    last_ = sizes_.every ? swap_extents(x, sizes_.length, batch.rows, by_rows_) : x;
    const int64_t places = steps() * batch.rows;
    repeat_row(row + head_bias_, places, sizes_.outputs, grow(logits_, places * sizes_.outputs));
    const float* weight = row + head_weight_;
    if (head_) {
      head_->add_product(places, sizes_.outputs, sizes_.units, last_, weight, logits_.data());
    } else {
      add_product(places, sizes_.outputs, sizes_.units, last_, weight, logits_.data());
    }
    return logits_.data();
  }

  const float* representation() override { return last_; }

  // [length, rows, embedding]: each token's row of the table.
  const float* embed(const float* row, const Batch& batch) {
    ids_ = token_ids(batch, sizes_);
    grow(embedded_, std::ssize(ids_) * sizes_.embedding);
    for_each_place(batch.rows, [&](int64_t token, int64_t place) {
      std::copy_n(row + token * sizes_.embedding, sizes_.embedding,
                  embedded_.data() + place * sizes_.embedding);
    });
    return embedded_.data();
  }

  // Calls f(token, place) for all places of [length, rows] in their order.
  template <class F>
  void for_each_place(int64_t rows, F f) const {
    for (int64_t step = 0, place = 0; step < sizes_.length; ++step) {
      for (int64_t r = 0; r < rows; ++r) f(ids_[to_index(r * sizes_.length + step)], place++);
    }
  }

  int64_t steps() const { return sizes_.every ? sizes_.length : 1; }  // that the head reads

  // y [b, a, units] <- x [a, b, units]; returns y.
  const float* swap_extents(const float* x, int64_t a, int64_t b, AlignedFloats& y) const {
    const int64_t units = sizes_.units;
    grow(y, a * b * units);
    for (int64_t i = 0; i < a; ++i) {
      for (int64_t j = 0; j < b; ++j) {
        std::copy_n(x + (i * b + j) * units, units, y.data() + (j * a + i) * units);
      }
    }
    return y.data();
  }

  void backward(const float* row, const Batch& batch, const GradientTarget& target) override {
    float* delta = head_backward(row, batch.rows, target);
    for (std::size_t k = layers_.size(); k-- > 0;) {
      delta = layers_[k].backward(delta, target);
      if (k > 0 && sizes_.dropout > 0) {
        const int64_t size = sizes_.length * batch.rows * sizes_.units;
        delta = masked(delta, masks_[k - 1], size, delta_);
      }
    }
    const int64_t size = sizes_.vocabulary * sizes_.embedding;
    table_gradient_.assign(to_index(size), 0.0F);
    for_each_place(batch.rows, [&](int64_t token, int64_t place) {
      float* sum = table_gradient_.data() + token * sizes_.embedding;
      for (int64_t v = 0; v < sizes_.embedding; ++v) sum[v] += delta[place * sizes_.embedding + v];
    });
    target.add(0, table_gradient_.data(), size);
  }

  // Returns the delta of the last layer's outputs [length, rows, units]: zeros in those that the
  // head does not read.
  float* head_backward(const float* row, int64_t rows, const GradientTarget& target) {
    const int64_t places = steps() * rows, size = places * sizes_.units;
    delta_.assign(static_cast<std::size_t>(sizes_.length * rows * sizes_.units), 0.0F);
    float* read = delta_.data() + std::ssize(delta_) - size;
    float* found = sizes_.every ? grow(delta_by_rows_, size) : read;
    const WeightGradient weight{.offset = head_weight_,
                                .out = sizes_.outputs,
                                .in = sizes_.units,
                                .samples = places,
                                .deltas = logits_.data(),
                                .inputs = last_};
    if (head_) {
      head_->add_gradient(weight, row + head_weight_, target, found);
    } else {
      multiply(places, sizes_.units, sizes_.outputs, 1.0F, {logits_.data(), sizes_.outputs},
               {row + head_weight_, sizes_.units}, 0.0F, found, sizes_.units);
    }
    add_representation_delta(found);
    if (sizes_.every) swap_extents(found, rows, sizes_.length, delta_);
    if (sizes_.dropout > 0) apply_mask(read, masks_.back().data(), size, read);
    if (!head_) target.add(weight);
    sum_rows(logits_.data(), places, sizes_.outputs, grow(sum_, sizes_.outputs));
    target.add(head_bias_, sum_.data(), sizes_.outputs);
    return delta_.data();
  }

  SequenceSizes sizes_;
  std::vector<LstmLayer> layers_;
  int64_t head_weight_ = 0, head_bias_ = 0;  // offsets in the row
  std::optional<Bfloat16Dense> head_;        // its products, in bfloat16
  std::vector<int64_t> ids_;                 // [rows, length]
  AlignedFloats embedded_;                   // [length, rows, embedding]
  AlignedFloats table_gradient_;             // [vocabulary, embedding]
  std::vector<AlignedFloats> masks_;    // for each layer's outputs; in the last one for those read
  std::vector<AlignedFloats> dropped_;  // outputs under the masks
  const float* last_ = nullptr;         // [rows, steps, units] the head's input
  AlignedFloats by_rows_;               // the memory of last_ where it has several steps ...
  AlignedFloats delta_by_rows_;         // ... and its delta
  AlignedFloats logits_;                // [rows, steps, outputs], then their deltas
  AlignedFloats delta_;                 // [length, rows, units] of a layer's outputs
  AlignedFloats sum_;                   // [outputs] the gradient of the head's bias
};

}  // namespace

std::unique_ptr<Model> make_lstm(const ModelCase& c) {
  return std::make_unique<LstmModel>(lstm_sizes(c), c.loss, is_bfloat16(c.options));
}

}  // namespace hanse
