#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "networks/graph.hpp"
#include "networks/sequences.hpp"

namespace hanse {

namespace {

// [length, d]: sin(t / 10000^(2i/d)) in column 2i, the cosine in column 2i + 1.
at::Tensor sinusoidal_positions(int64_t length, int64_t d) {
  const at::Tensor positions = at::empty({length, d}, at::kFloat);
  auto* to = positions.data_ptr<float>();
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t column = 0; column < d; ++column) {
      const double exponent = static_cast<double>(column - column % 2) / static_cast<double>(d);
      const double angle = static_cast<double>(t) / std::pow(10000.0, exponent);
      *to++ = static_cast<float>(column % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return positions;
}

class TransformerModel final : public GraphModel {
 public:
  TransformerModel(const SequenceSizes& sizes, int64_t heads, LossPtr loss)
      : GraphModel(std::move(loss)),
        sizes_(sizes),
        heads_(heads),
        positions_(sinusoidal_positions(sizes.length, sizes.embedding)) {
    layout_.add("embedding.weight", {sizes.vocabulary, sizes.embedding}, sizes.embedding);
    for (int64_t layer = 0; layer < sizes.layers; ++layer) {
      add_layer(fmt::format("layers.{}.", layer));
    }
    layout_.add("fc.weight", {sizes.outputs, sizes.embedding}, sizes.embedding);
    layout_.add("fc.bias", {sizes.outputs}, sizes.embedding);
    const auto d = static_cast<double>(sizes.embedding), length = static_cast<double>(sizes.length);
    const double a_token = 4 * d * d + 2 * d * static_cast<double>(sizes.units) + 2 * length * d;
    add_layer_work(static_cast<double>(sizes.layers) * length * a_token);
    add_layer_work((sizes.every ? length : 1) * d * static_cast<double>(sizes.outputs));
    if (sizes.every) later_ = at::ones({sizes.length, sizes.length}, at::kBool).triu(1);
  }

  int64_t vocabulary() const override { return sizes_.vocabulary; }

 protected:
  at::Tensor graph(const std::vector<at::Tensor>& leaves, const Batch& batch,
                   RandomStream* noise) override {
    const double scale = std::sqrt(static_cast<double>(sizes_.embedding));
    at::Tensor x = at::embedding(leaves[0], token_ids(batch, sizes_)) * scale + positions_;
    x = dropout(x, sizes_.dropout, noise);
    std::size_t next = 1;
    for (int64_t layer = 0; layer < sizes_.layers; ++layer, next += kTensors) {
      x = encode(x, leaves.data() + next, noise);
    }
    return at::linear(sizes_.every ? x : x.mean(1), leaves[next], leaves[next + 1]);
  }

 private:
  static constexpr std::size_t kTensors = 12;  // of a layer

  // Names and order of torch.nn.TransformerEncoderLayer.
  void add_layer(const std::string& name) {
    const int64_t d = sizes_.embedding;
    const int64_t units = sizes_.units;
    layout_.add(name + "self_attn.in_proj_weight", {3 * d, d}, d);
    layout_.add_constant(name + "self_attn.in_proj_bias", {3 * d}, 0);
    layout_.add(name + "self_attn.out_proj.weight", {d, d}, d);
    layout_.add_constant(name + "self_attn.out_proj.bias", {d}, 0);
    layout_.add(name + "linear1.weight", {units, d}, d);
    layout_.add(name + "linear1.bias", {units}, d);
    layout_.add(name + "linear2.weight", {d, units}, units);
    layout_.add(name + "linear2.bias", {d}, units);
    for (const char* norm : {"norm1.", "norm2."}) {
      layout_.add_constant(name + norm + "weight", {d}, 1);
      layout_.add_constant(name + norm + "bias", {d}, 0);
    }
  }

  // x <- norm(x + attention(x)), then norm(x + feed_forward(x)); x [rows, length, d].
  at::Tensor encode(const at::Tensor& x, const at::Tensor* w, RandomStream* noise) const {
    const at::Tensor attended = at::linear(attend(at::linear(x, w[0], w[1]), noise), w[2], w[3]);
    const at::Tensor y = normalize(x + dropout(attended, sizes_.dropout, noise), w[8], w[9]);
    const at::Tensor hidden = at::relu(at::linear(y, w[4], w[5]));
    const at::Tensor fed = at::linear(dropout(hidden, sizes_.dropout, noise), w[6], w[7]);
    return normalize(y + dropout(fed, sizes_.dropout, noise), w[10], w[11]);
  }

  // softmax(q k^T / sqrt(d / heads)) v of every head; qkv [rows, length, 3 d]. Where every position
  // has a label it looks at none behind it.
  at::Tensor attend(const at::Tensor& qkv, RandomStream* noise) const {
    const int64_t rows = qkv.size(0), length = qkv.size(1), width = sizes_.embedding / heads_;
    const auto parts = qkv.view({rows, length, 3, heads_, width}).permute({2, 0, 3, 1, 4});
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    at::Tensor scores = at::matmul(parts[0] * scale, parts[1].transpose(-2, -1));
    if (sizes_.every) scores = scores.masked_fill(later_, -INFINITY);
    const at::Tensor shares = dropout(scores.softmax(-1), sizes_.dropout, noise);
    return at::matmul(shares, parts[2]).transpose(1, 2).reshape({rows, length, heads_ * width});
  }

  static at::Tensor normalize(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias) {
    return at::layer_norm(x, {x.size(-1)}, weight, bias, kNormEpsilon);
  }

  SequenceSizes sizes_;
  int64_t heads_;
  at::Tensor positions_;  // [length, d]
  at::Tensor later_;      // [length, length] is position j behind position i? Or none
};

}  // namespace

std::unique_ptr<Model> make_transformer(const ModelCase& c) {
  SequenceSizes sizes = sequence_sizes(c);
  sizes.embedding = given_or(sizes.embedding, 64);
  sizes.units = given_or(sizes.units, 4 * sizes.embedding);
  sizes.layers = given_or(sizes.layers, 1);
  if (c.options.heads < 1 || sizes.embedding % c.options.heads != 0) {
    throw InvalidArgument(
        fmt::format("{} heads do not divide an embedding of {}", c.options.heads, sizes.embedding),
        "model.heads");
  }
  return std::make_unique<TransformerModel>(sizes, c.options.heads, c.loss);
}

}  // namespace hanse
