#include "network_forward.hpp"

#include <algorithm>
#include <utility>

namespace hanse {

namespace {

// Caldas et al. 2018, LEAF: the FEMNIST model (6.6M parameters for 62 classes).
NetworkSpec leaf_spec() { return {{{32, 5, 2, true}, {64, 5, 2, true}}, {2048}, 0, 0}; }

// Granqvist et al. 2024, pfl-research: the CIFAR-10 model (1.6M parameters).
NetworkSpec cifar_spec() { return {{{32, 3, 0, false}, {64, 3, 0, true}}, {128}, 0.25, 0.5}; }

// LeCun et al. 1998, LeNet-5, with ReLU and max pooling. Its input is 32x32; smaller images, like
// the 28x28 of MNIST, are padded by 2.
NetworkSpec lenet_spec(const std::vector<int64_t>& sample_shape) {
  const bool large = sample_shape.size() == 3 && std::min(sample_shape[1], sample_shape[2]) >= 32;
  const int64_t padding = large ? 0 : 2;
  return {{{6, 5, padding, true}, {16, 5, 0, true}}, {120, 84}, 0, 0};
}

// 2x2, of [..., height, width]. Of equal values the first has the gradient, as in at::max_pool2d.
at::Tensor max_pool(const at::Tensor& x) {
  const int64_t height = x.size(-2) / 2 * 2, width = x.size(-1) / 2 * 2;
  const auto corner = [&](int64_t row, int64_t column) {
    return x.slice(-2, row, height, 2).slice(-1, column, width, 2);
  };
  at::Tensor largest = corner(0, 0);
  for (const auto& [row, column] : {std::pair{0, 1}, {1, 0}, {1, 1}}) {
    const at::Tensor next = corner(row, column);
    largest = at::where(next > largest, next, largest);
  }
  return largest;
}

// y = x W^T + b
at::Tensor dense_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (weight.dim() == 2) return at::linear(x, weight, bias);
  const at::Tensor transposed = weight.transpose(1, 2);  // [C, in, out]
  return bias.defined() ? at::baddbmm(bias.unsqueeze(1), x, transposed) : at::bmm(x, transposed);
}

}  // namespace

int64_t ConvolutionStage::output_side(int64_t side) const {
  const int64_t convolved = side + 2 * padding - kernel + 1;
  return pool ? convolved / 2 : convolved;
}

std::optional<NetworkSpec> network_spec(const ModelOptions& options,
                                        const std::vector<int64_t>& sample_shape) {
  if (options.kind == "linear") return NetworkSpec{.bias = options.bias};
  if (options.kind == "mlp") return NetworkSpec{.hidden = options.hidden};
  if (options.kind == "cnn-leaf") return leaf_spec();
  if (options.kind == "cnn-cifar") return cifar_spec();
  if (options.kind == "lenet") return lenet_spec(sample_shape);
  return std::nullopt;
}

at::Tensor convolve(const std::vector<ConvolutionStage>& stages, std::span<const at::Tensor> leaves,
                    at::Tensor x, Pooling pooling) {
  const bool many = !stages.empty() && leaves[0].dim() == 5;
  const int64_t clients = many ? leaves[0].size(0) : 1;
  const auto joined = [&](const at::Tensor& leaf) { return many ? leaf.flatten(0, 1) : leaf; };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s > 0) at::relu_(x);
    x = at::conv2d(x, joined(leaves[2 * s]), joined(leaves[2 * s + 1]), 1, stages[s].padding, 1,
                   clients);
    if (!stages[s].pool) continue;
    x = pooling == Pooling::kMaxPool ? at::max_pool2d(x, 2) : max_pool(x);
  }
  return x;
}

at::Tensor dense_layers(std::span<const at::Tensor> leaves, bool bias, at::Tensor x,
                        std::span<const at::Tensor> masks) {
  const std::size_t step = bias ? 2 : 1;
  for (std::size_t leaf = 0; leaf < leaves.size(); leaf += step) {
    x = dense_layer(x, leaves[leaf], bias ? leaves[leaf + 1] : at::Tensor());
    if (leaf + step == leaves.size()) break;
    x = at::relu(x);
    if (!masks.empty()) x = x * masks[leaf / step];
  }
  return x;
}

NetworkForward::NetworkForward(NetworkSpec spec, const std::vector<int64_t>& sample_shape)
    : spec_(std::move(spec)), sample_shape_(sample_shape) {
  if (!spec_.stages.empty() && spec_.feature_dropout > 0) {
    int64_t height = sample_shape[1], width = sample_shape[2];
    for (const ConvolutionStage& stage : spec_.stages) {
      height = stage.output_side(height);
      width = stage.output_side(width);
    }
    dropouts_.push_back({spec_.stages.back().channels * height * width, spec_.feature_dropout});
  }
  if (spec_.hidden_dropout > 0) {
    for (const int64_t units : spec_.hidden) dropouts_.push_back({units, spec_.hidden_dropout});
  }
}

at::Tensor NetworkForward::logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                                  std::span<const at::Tensor> masks) const {
  at::Tensor x = input;
  if (!spec_.stages.empty()) {
    const int64_t c = input.size(0), b = input.size(1);
    x = input.transpose(0, 1).reshape(
        {b, c * sample_shape_[0], sample_shape_[1], sample_shape_[2]});
    x = convolve(spec_.stages, leaves, x, Pooling::kComparisons);
    x = at::relu(x.reshape({b, c, -1}).transpose(0, 1));
    if (!masks.empty() && spec_.feature_dropout > 0) {
      x = x * masks.front();
      masks = masks.subspan(1);
    }
  }
  return dense_layers(leaves.subspan(2 * spec_.stages.size()), spec_.bias, x, masks);
}

}  // namespace hanse
