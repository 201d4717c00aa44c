#include <algorithm>
#include <cstddef>

#include <ATen/ATen.h>

#include "dropout.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/index.hpp"
#include "network_model.hpp"
#include "networks/cohort_forward.hpp"
#include "networks/network_forward.hpp"
#include "networks/sequences.hpp"

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

// One layer (Hochreiter and Schmidhuber 1997, with forget gates), tensors and gates in torch's
// order:
//   i, f, o = sigmoid, g = tanh of  x_t W_ih^T + b_ih + h_{t-1} W_hh^T + b_hh   [rows, units each]
//   c_t = f c_{t-1} + i g,  h_t = o tanh(c_t),  c_0 = h_0 = 0.
//
// The inputs' product is one for all steps, and so is each weight's gradient: only the recurrent
// product is left inside the loops. LibTorch adds a gradient of full size in every step.
// Cost of a training step: 24 length rows units (inputs + units) flops. Memory: 12 floats a unit,
// row and step.
class LstmLayer {
 public:
  // Appends "lstm.weight_ih_lK", weight_hh, bias_ih, bias_hh; K is `index`.
  LstmLayer(ParameterLayout& layout, int64_t index, int64_t inputs, int64_t units)
      : inputs_(inputs), units_(units) {
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      return layout.add("lstm." + name + std::to_string(index), std::move(shape), units);
    };
    weight_ih_ = add("weight_ih_l", {4 * units, inputs});
    weight_hh_ = add("weight_hh_l", {4 * units, units});
    bias_ih_ = add("bias_ih_l", {4 * units});
    bias_hh_ = add("bias_hh_l", {4 * units});
  }

  // h [length, rows, units] of x [length, rows, inputs]. It lives until the next call; `row` and
  // `x` must be unchanged in backward().
  const float* forward(const float* row, const float* x, int64_t length, int64_t rows) {
    row_ = row;
    x_ = x;
    length_ = length;
    rows_ = rows;
    const int64_t width = 4 * units_, samples = length * rows;
    grow(gates_, samples * width);
    for (AlignedFloats* buffer : {&cells_, &tanhs_, &hidden_}) grow(*buffer, samples * units_);
    for (int64_t u = 0; u < width; ++u) gates_[to_index(u)] = row[bias_ih_ + u] + row[bias_hh_ + u];
    repeat_row(gates_.data(), samples - 1, width, gates_.data() + width);
    add_product(samples, width, inputs_, x, row + weight_ih_, gates_.data());
    for (int64_t step = 0; step < length; ++step) advance(step);
    return hidden_.data();
  }

  // From delta [length, rows, units], the loss's gradient by h. Hands the gradient to `target`,
  // which may be the row of forward() itself. Returns that by x [length, rows, inputs].
  const float* backward(const float* delta, const GradientTarget& target) {
    const int64_t width = 4 * units_, samples = length_ * rows_;
    grow(delta_x_, samples * inputs_);
    delta_h_.assign(to_index(rows_ * units_), 0.0F);
    delta_c_.assign(to_index(rows_ * units_), 0.0F);
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
    sum_rows(gates_.data(), samples, width, grow(bias_, width));
    target.add(bias_ih_, bias_.data(), width);
    target.add(bias_hh_, bias_.data(), width);
    return delta_x_.data();
  }

 private:
  void advance(int64_t step) {
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

  void retreat(int64_t step, const float* delta) {
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
    for_each_tile(rows_, width, units_, [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) {
      multiply(rows_, n_in, n_out, 1, {gates + o, width},
               {row_ + weight_hh_ + o * units_ + i, units_}, o == 0 ? 0.0F : 1.0F,
               delta_h_.data() + i, units_);
    });
  }

  int64_t inputs_, units_;
  int64_t weight_ih_, weight_hh_, bias_ih_, bias_hh_;  // offsets in the row
  int64_t length_ = 0, rows_ = 0;
  const float* row_ = nullptr;
  const float* x_ = nullptr;
  AlignedFloats gates_;    // [length, rows, 4 units], then their deltas
  AlignedFloats cells_;    // [length, rows, units] c_t
  AlignedFloats tanhs_;    // [length, rows, units] tanh(c_t)
  AlignedFloats hidden_;   // [length, rows, units] h_t
  AlignedFloats delta_h_;  // [rows, units] what step t + 1 says of h_t
  AlignedFloats delta_c_;  // [rows, units] of c_t
  AlignedFloats delta_x_;  // [length, rows, inputs]
  AlignedFloats bias_;     // [4 units]
};

// y <- x * mask, entry by entry; returns the first.
const float* masked(const float* x, const AlignedFloats& mask, int64_t size, AlignedFloats& y) {
  grow(y, size);
  for (std::size_t i = 0; i < to_index(size); ++i) y[i] = x[i] * mask[i];
  return y.data();
}

class LstmModel final : public NetworkModel {
 public:
  LstmModel(const SequenceSizes& sizes, LossPtr loss)
      : NetworkModel(std::move(loss)), sizes_(sizes) {
    layout_.add("embedding.weight", {sizes.vocabulary, sizes.embedding}, sizes.embedding);
    for (int64_t k = 0; k < sizes.layers; ++k) {
      const int64_t inputs = k == 0 ? sizes.embedding : sizes.units;
      layers_.emplace_back(layout_, k, inputs, sizes.units);
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
    ids_ = token_ids(batch, sizes_).t();
    float* weight = const_cast<float*>(row);
    embedded_ = at::embedding(
        at::from_blob(weight, {sizes_.vocabulary, sizes_.embedding}, at::kFloat), ids_);
    const float* x = embedded_.data_ptr<float>();
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
    add_product(places, sizes_.outputs, sizes_.units, last_, row + head_weight_, logits_.data());
    return logits_.data();
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
    const float* delta = head_backward(row, batch.rows, target);
    for (std::size_t k = layers_.size(); k-- > 0;) {
      delta = layers_[k].backward(delta, target);
      if (k > 0 && sizes_.dropout > 0) {
        const int64_t size = sizes_.length * batch.rows * sizes_.units;
        delta = masked(delta, masks_[k - 1], size, delta_);
      }
    }
    const at::Tensor deltas =
        at::from_blob(const_cast<float*>(delta), embedded_.sizes(), at::kFloat);
    const at::Tensor sums =
        at::embedding_dense_backward(deltas, ids_, sizes_.vocabulary, -1, false);
    target.add(0, sums.data_ptr<float>(), sums.numel());
  }

  // Returns the delta of the last layer's outputs [length, rows, units]: zeros in those that the
  // head does not read.
  const float* head_backward(const float* row, int64_t rows, const GradientTarget& target) {
    const int64_t places = steps() * rows, size = places * sizes_.units;
    delta_.assign(static_cast<std::size_t>(sizes_.length * rows * sizes_.units), 0.0F);
    float* read = delta_.data() + std::ssize(delta_) - size;
    float* found = sizes_.every ? grow(delta_by_rows_, size) : read;
    multiply(places, sizes_.units, sizes_.outputs, 1.0F, {logits_.data(), sizes_.outputs},
             {row + head_weight_, sizes_.units}, 0.0F, found, sizes_.units);
    if (sizes_.every) swap_extents(found, rows, sizes_.length, delta_);
    for (int64_t i = 0; sizes_.dropout > 0 && i < size; ++i) {
      read[i] *= masks_.back()[static_cast<std::size_t>(i)];
    }
    target.add({.offset = head_weight_,
                .out = sizes_.outputs,
                .in = sizes_.units,
                .samples = places,
                .deltas = logits_.data(),
                .inputs = last_});
    sum_rows(logits_.data(), places, sizes_.outputs, grow(sum_, sizes_.outputs));
    target.add(head_bias_, sum_.data(), sizes_.outputs);
    return delta_.data();
  }

  SequenceSizes sizes_;
  std::vector<LstmLayer> layers_;
  int64_t head_weight_ = 0, head_bias_ = 0;  // offsets in the row
  at::Tensor ids_;                           // [length, rows]
  at::Tensor embedded_;                      // [length, rows, embedding]
  std::vector<AlignedFloats> masks_;         // a layer: of its outputs, of the last one those read
  std::vector<AlignedFloats> dropped_;       // outputs under the masks
  const float* last_ = nullptr;              // [rows, steps, units] the head's input
  AlignedFloats by_rows_;                    // what last_ is of where it has several steps ...
  AlignedFloats delta_by_rows_;              // ... and its delta
  AlignedFloats logits_;                     // [rows, steps, outputs], then their deltas
  AlignedFloats delta_;                      // [length, rows, units] of a layer's outputs
  AlignedFloats sum_;                        // [outputs] the gradient of the head's bias
};

// The same by LibTorch's autograd, one recurrent product a step for all clients.
class LstmForward final : public CohortForward {
 public:
  explicit LstmForward(const SequenceSizes& sizes) : sizes_(sizes) {
    for (int64_t k = 0; k < sizes.layers && sizes.dropout > 0; ++k) {
      const int64_t steps = k + 1 < sizes.layers ? sizes.length : 1;
      dropouts_.push_back({steps * sizes.units, sizes.dropout, steps});
    }
  }

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor> masks) const override {
    const int64_t c = input.size(0), b = input.size(1);
    at::Tensor x = embed(leaves[0], input.to(at::kLong).transpose(1, 2));  // [C, length, B, values]
    for (int64_t k = 0; k < sizes_.layers; ++k) {
      const auto layer = leaves.subspan(to_index(1 + 4 * k), 4);
      const std::vector<at::Tensor> h = hidden(layer, x);
      const bool is_last = k + 1 == sizes_.layers;
      x = is_last ? h.back() : at::stack(h, 1);
      if (masks.empty()) continue;
      const at::Tensor& mask = masks[to_index(k)];
      x = x * (is_last ? mask : mask.view({c, b, sizes_.length, -1}).transpose(1, 2));
    }
    const std::size_t head = leaves.size() - 2;
    return dense(x, leaves[head], leaves[head + 1]);
  }

  void check(const Batch& batch) const override { token_ids(batch, sizes_); }

 private:
  // h_t [C, B, units] of every step, of x [C, length, B, inputs]; LstmLayer has the formula.
  std::vector<at::Tensor> hidden(std::span<const at::Tensor> w, const at::Tensor& x) const {
    const at::Tensor inputs = dense(x, w[0], w[2] + w[3]);
    const at::Tensor recurrent = w[1].transpose(1, 2);
    std::vector<at::Tensor> h;
    at::Tensor c;
    for (int64_t step = 0; step < sizes_.length; ++step) {
      at::Tensor sums = inputs.select(1, step);
      if (step > 0) sums = at::baddbmm(sums, h.back(), recurrent);
      const auto gates = sums.chunk(4, -1);
      const at::Tensor in = at::sigmoid(gates[0]) * at::tanh(gates[2]);
      c = step > 0 ? at::sigmoid(gates[1]) * c + in : in;
      h.push_back(at::sigmoid(gates[3]) * at::tanh(c));
    }
    return h;
  }

  SequenceSizes sizes_;
};

SequenceSizes lstm_sizes(const ModelCase& c) {
  SequenceSizes sizes = sequence_sizes(c);
  sizes.embedding = given_or(sizes.embedding, 8);
  sizes.units = given_or(sizes.units, 256);
  sizes.layers = given_or(sizes.layers, 2);
  return sizes;
}

}  // namespace

std::unique_ptr<CohortForward> make_lstm_cohort(const ModelCase& c) {
  return std::make_unique<LstmForward>(lstm_sizes(c));
}

std::unique_ptr<Model> make_lstm(const ModelCase& c) {
  return std::make_unique<LstmModel>(lstm_sizes(c), c.loss);
}

}  // namespace hanse
