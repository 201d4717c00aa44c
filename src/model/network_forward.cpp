#include "batched_network.hpp"

#include <utility>

namespace hanse {

namespace {

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

}  // namespace

BatchedNetwork::BatchedNetwork(NetworkSpec spec, const std::vector<int64_t>& sample_shape,
                               bool bias)
    : spec_(std::move(spec)), sample_shape_(sample_shape), bias_(bias) {
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

// [C, B, channels height width], before the last ReLU. Between the stages [B, C channels, ...].
at::Tensor BatchedNetwork::convolve(const std::vector<at::Tensor>& leaves,
                                    const at::Tensor& input) const {
  const int64_t c = input.size(0), b = input.size(1);
  at::Tensor x =
      input.transpose(0, 1).reshape({b, c * sample_shape_[0], sample_shape_[1], sample_shape_[2]});
  for (std::size_t s = 0; s < spec_.stages.size(); ++s) {
    const ConvolutionStage& stage = spec_.stages[s];
    if (s > 0) x = at::relu(x);
    x = at::conv2d(x, leaves[2 * s].flatten(0, 1), leaves[2 * s + 1].flatten(0, 1), 1,
                   stage.padding, 1, c);
    if (stage.pool) x = max_pool(x);
  }
  return x.reshape({b, c, -1}).transpose(0, 1);
}

at::Tensor BatchedNetwork::logits(const std::vector<at::Tensor>& leaves, const at::Tensor& input,
                                  const std::vector<at::Tensor>& masks) const {
  const std::size_t n_stages = spec_.stages.size();
  std::size_t next_mask = 0;
  at::Tensor x = input;
  if (n_stages > 0) {
    x = at::relu(convolve(leaves, input));
    if (!masks.empty() && spec_.feature_dropout > 0) x = x * masks[next_mask++];
  }
  std::size_t leaf = 2 * n_stages;
  for (std::size_t l = 0; l <= spec_.hidden.size(); ++l) {
    const at::Tensor weight = leaves[leaf++].transpose(1, 2);  // [C, in, out]
    x = bias_ ? at::baddbmm(leaves[leaf++].unsqueeze(1), x, weight) : at::bmm(x, weight);
    if (l == spec_.hidden.size()) break;
    x = at::relu(x);
    if (!masks.empty() && spec_.hidden_dropout > 0) x = x * masks[next_mask++];
  }
  return x;
}

}  // namespace hanse
