#include <cmath>
#include <functional>

#include "layers/group_norm.hpp"
#include "networks/cohorts/cohort_forward.hpp"
#include "networks/cohorts/network_forward.hpp"
#include "sequences.hpp"

namespace hanse {

namespace {

// What is dropped from, in the order of the pass.
using Drop = std::function<at::Tensor(const at::Tensor& x)>;

// The network on tokens ids [rows, length], or [C, rows, length] of clients whose leaves have a
// leading C.
class TransformerPass {
 public:
  static constexpr std::size_t kTensors = 12;  // of a layer

  // On `device`, where its constants stay.
  TransformerPass(const SequenceSizes& sizes, const at::Device& device,
                  const NetworkProducts& products)
      : sizes_(sizes),
        products_(products),
        positions_(at::tensor(sinusoidal_positions(sizes.length, sizes.embedding))
                       .view({sizes.length, sizes.embedding})
                       .to(device)) {
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
    const int64_t length = sizes_.length, width = sizes_.embedding / sizes_.heads;
    const int64_t rows = qkv.numel() / (length * 3 * sizes_.embedding);
    const auto parts = qkv.view({rows, length, 3, sizes_.heads, width}).permute({2, 0, 3, 1, 4});
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
  NetworkProducts products_;
  at::Tensor positions_;  // [length, d]
  at::Tensor later_;      // [length, length] is position j behind position i? Or none
};

class TransformerForward final : public CohortForward {
 public:
  TransformerForward(const SequenceSizes& sizes, const ModelOptions& options,
                     const at::Device& device)
      : pass_(sizes, device, NetworkProducts(is_bfloat16(options))) {
    if (sizes.dropout == 0) return;
    dropouts_.push_back({sizes.length * sizes.embedding, sizes.dropout});
    for (int64_t layer = 0; layer < sizes.layers; ++layer) {
      for (const int64_t width : dropped_widths(sizes)) dropouts_.push_back({width, sizes.dropout});
    }
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

}  // namespace

std::unique_ptr<CohortForward> make_transformer_cohort(const ModelCase& c,
                                                       const std::string& device) {
  return std::make_unique<TransformerForward>(transformer_sizes(c), c.options, at::Device(device));
}

}  // namespace hanse
