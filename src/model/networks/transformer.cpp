#include <cmath>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "networks/cohorts/cohort_forward.hpp"
#include "networks/cohorts/network_forward.hpp"
#include "networks/graph.hpp"
#include "sequences.hpp"

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

// The tokens [rows, length].
at::Tensor token_tensor(const Batch& batch, const SequenceSizes& sizes) {
  return at::tensor(token_ids(batch, sizes)).view({batch.rows, sizes.length});
}

// What is dropped from, in the order of the pass.
using Drop = std::function<at::Tensor(const at::Tensor& x)>;

// The network on tokens ids [rows, length], or [C, rows, length] of clients whose leaves have a
// leading C.
class TransformerPass {
 public:
  static constexpr std::size_t kTensors = 12;  // of a layer

  // On `device`, where its constants stay.
  TransformerPass(const SequenceSizes& sizes, int64_t heads, const at::Device& device = at::kCPU,
                  const NetworkProducts& products = NetworkProducts())
      : sizes_(sizes),
        heads_(heads),
        products_(products),
        positions_(sinusoidal_positions(sizes.length, sizes.embedding).to(device)) {
    if (!sizes.every) return;
    later_ = at::ones({sizes.length, sizes.length}, at::kBool).triu(1).to(device);
  }

  const SequenceSizes& sizes() const { return sizes_; }

  // `representation`, unless null, gets what the last layer reads.
  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& ids, const Drop& drop,
                    at::Tensor* representation) const {
    const double scale = std::sqrt(static_cast<double>(sizes_.embedding));
    at::Tensor x = drop(embed(leaves[0], ids) * scale + positions_);
    std::size_t next = 1;
    for (int64_t layer = 0; layer < sizes_.layers; ++layer, next += kTensors) {
      x = encode(x, leaves.subspan(next, kTensors), drop);
    }
    if (!sizes_.every) x = x.mean(-2);
    if (representation != nullptr) *representation = x;
    return dense(products_, x, leaves[next], leaves[next + 1]);
  }

  // Values a sample of whatever is dropped from.
  std::vector<int64_t> dropped_widths() const {
    const int64_t row = sizes_.length * sizes_.embedding;
    std::vector<int64_t> widths{row};
    for (int64_t layer = 0; layer < sizes_.layers; ++layer) {
      for (const int64_t width :
           {heads_ * sizes_.length * sizes_.length, row, sizes_.length * sizes_.units, row}) {
        widths.push_back(width);
      }
    }
    return widths;
  }

 private:
  // x <- norm(x + attention(x)), then norm(x + feed_forward(x)); x [..., length, d].
  at::Tensor encode(const at::Tensor& x, std::span<const at::Tensor> w, const Drop& drop) const {
    const at::Tensor attended = layer(attend(layer(x, w[0], w[1]), drop), w[2], w[3]);
    const at::Tensor y = normalize(x + drop(attended), w[8], w[9]);
    const at::Tensor hidden = at::relu(layer(y, w[4], w[5]));
    const at::Tensor fed = layer(drop(hidden), w[6], w[7]);
    return normalize(y + drop(fed), w[10], w[11]);
  }

  at::Tensor layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
    return dense(products_, x, weight, bias);
  }

  // softmax(q k^T / sqrt(d / heads)) v of every head; qkv [..., length, 3 d]. Where every position
  // has a label it looks at none behind it.
  at::Tensor attend(const at::Tensor& qkv, const Drop& drop) const {
    const int64_t length = sizes_.length, width = sizes_.embedding / heads_;
    const int64_t rows = qkv.numel() / (length * 3 * sizes_.embedding);
    const auto parts = qkv.view({rows, length, 3, heads_, width}).permute({2, 0, 3, 1, 4});
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    at::Tensor scores = products_.multiply_any(parts[0] * scale, parts[1].transpose(-2, -1));
    if (sizes_.every) scores = scores.masked_fill(later_, -INFINITY);
    const at::Tensor shares = drop(scores.softmax(-1));
    auto sizes = qkv.sizes().vec();
    sizes.back() = sizes_.embedding;
    return products_.multiply_any(shares, parts[2]).transpose(1, 2).reshape(sizes);
  }

  static at::Tensor normalize(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias) {
    if (weight.dim() == 1) return at::layer_norm(x, {x.size(-1)}, weight, bias, kNormEpsilon);
    const std::vector<int64_t> own{weight.size(0), 1, 1, weight.size(1)};
    return at::layer_norm(x, {x.size(-1)}, {}, {}, kNormEpsilon) * weight.view(own) +
           bias.view(own);
  }

  SequenceSizes sizes_;
  int64_t heads_;
  NetworkProducts products_;
  at::Tensor positions_;  // [length, d]
  at::Tensor later_;      // [length, length] is position j behind position i? Or none
};

class TransformerModel final : public GraphModel {
 public:
  TransformerModel(const SequenceSizes& sizes, const ModelCase& c)
      : GraphModel(c.loss, c.options.precision), sizes_(sizes) {
    representation_width_ = sizes.embedding;
    layout_.add("embedding.weight", {sizes.vocabulary, sizes.embedding}, sizes.embedding);
    layout_.mark("embedding.weight", MatrixUse::kEmbedding);
    for (int64_t layer = 0; layer < sizes.layers; ++layer) {
      add_layer(fmt::format("layers.{}.", layer));
    }
    layout_.add("fc.weight", {sizes.outputs, sizes.embedding}, sizes.embedding);
    layout_.add("fc.bias", {sizes.outputs}, sizes.embedding);
    pass_.emplace(sizes, c.options.heads);  // the layout has refused sizes that are too large
    const auto d = static_cast<double>(sizes.embedding), length = static_cast<double>(sizes.length);
    const double a_token = 4 * d * d + 2 * d * static_cast<double>(sizes.units) + 2 * length * d;
    add_layer_work(static_cast<double>(sizes.layers) * length * a_token);
    add_layer_work((sizes.every ? length : 1) * d * static_cast<double>(sizes.outputs));
  }

  int64_t vocabulary() const override { return sizes_.vocabulary; }

 protected:
  at::Tensor graph(const std::vector<at::Tensor>& leaves, const Batch& batch, RandomStream* noise,
                   at::Tensor& representation) override {
    return pass_->logits(
        leaves, token_tensor(batch, sizes_),
        [&](const at::Tensor& x) { return dropout(x, sizes_.dropout, noise); }, &representation);
  }

 private:
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

  SequenceSizes sizes_;
  std::optional<TransformerPass> pass_;
};

class TransformerForward final : public CohortForward {
 public:
  TransformerForward(const SequenceSizes& sizes, const ModelOptions& options,
                     const at::Device& device)
      : pass_(sizes, options.heads, device, NetworkProducts(is_bfloat16(options))) {
    if (sizes.dropout == 0) return;
    for (const int64_t width : pass_.dropped_widths()) dropouts_.push_back({width, sizes.dropout});
  }

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor> masks, at::Tensor* representation) const override {
    std::size_t next = 0;
    return pass_.logits(
        leaves, input.to(at::kLong),
        [&](const at::Tensor& x) { return masks.empty() ? x : x * masks[next++].view(x.sizes()); },
        representation);
  }

  void check(const Batch& batch) const override { token_ids(batch, pass_.sizes()); }

 private:
  TransformerPass pass_;
};

SequenceSizes transformer_sizes(const ModelCase& c) {
  SequenceSizes sizes = sequence_sizes(c);
  sizes.embedding = given_or(sizes.embedding, 64);
  sizes.units = given_or(sizes.units, 4 * sizes.embedding);
  sizes.layers = given_or(sizes.layers, 1);
  return sizes;
}

}  // namespace

std::unique_ptr<CohortForward> make_transformer_cohort(const ModelCase& c,
                                                       const std::string& device) {
  return std::make_unique<TransformerForward>(transformer_sizes(c), c.options, at::Device(device));
}

std::unique_ptr<Model> make_transformer(const ModelCase& c) {
  const SequenceSizes sizes = transformer_sizes(c);
  if (c.options.heads < 1 || sizes.embedding % c.options.heads != 0) {
    throw InvalidArgument(
        fmt::format("{} heads do not divide an embedding of {}", c.options.heads, sizes.embedding),
        "model.heads");
  }
  return std::make_unique<TransformerModel>(sizes, c);
}

}  // namespace hanse
