// What the convolutional networks of the federated-learning literature are made of, and their
// forward pass as one graph of tensors, for one client or for several side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "hanse/model/model.hpp"

namespace hanse {

// Convolution with stride 1, then 2x2 max pooling or not, then ReLU.
struct ConvolutionStage {
  int64_t channels, kernel, padding;
  bool pool;
};

// What the stages make of the side of an image; below 1: it is too small for them.
int64_t output_side(const std::vector<ConvolutionStage>& stages, int64_t side);
// Values a sample behind the stages, of images {channels, height, width}. REQUIRES: a stage.
int64_t output_values(const std::vector<ConvolutionStage>& stages,
                      const std::vector<int64_t>& sample_shape);

struct NetworkSpec {
  std::vector<ConvolutionStage> stages;
  std::vector<int64_t> hidden;  // dense layers between the features and the logits
  double feature_dropout = 0;
  double hidden_dropout = 0;
  bool bias = true;  // of the dense layers
};

// What a network of these options is made of, for the kinds that are made of this alone: of linear
// nothing, of mlp the hidden layers; cnn-leaf, cnn-cifar, lenet. Its layout: conv1.weight,
// conv1.bias, ..., fc1.weight, fc1.bias, ...
std::optional<NetworkSpec> network_spec(const ModelOptions& options,
                                        const std::vector<int64_t>& sample_shape);

// How 2x2 pooling is made. Of equal values the first has the gradient in both.
enum class Pooling {
  kMaxPool,      // at::max_pool2d, the fastest on a CPU
  kComparisons,  // whose gradient is no scatter: CUDA adds that of max_pool2d in an undefined order
};

// The stages on images x [B, C channels, height, width], C clients' in the channels of one: grouped
// convolutions. `leaves` begins with the stages' weights and biases, each with a leading C; one
// client's may have none. The result is before its ReLU.
//
// ReLU after pooling: max(relu(x)) = relu(max(x)), and the gradients are equal too, on a quarter of
// the values.
at::Tensor convolve(const std::vector<ConvolutionStage>& stages, std::span<const at::Tensor> leaves,
                    at::Tensor x, Pooling pooling);

// Logits of x [..., B, inputs] by dense layers with ReLU between them. `leaves` are their weights,
// with bias each followed by its own; of several clients all have a leading C. `masks`, when there
// are any, multiply the hidden layers' outputs one after another.
at::Tensor dense_layers(std::span<const at::Tensor> leaves, bool bias, at::Tensor x,
                        std::span<const at::Tensor> masks);

// x [..., in] by weight [out, in], or of C clients x [C, ..., in] by weight [C, out, in].
at::Tensor dense(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Rows of weight [tokens, values] by ids [...], or of C clients' weight [C, tokens, values] by ids
// [C, ...].
at::Tensor embed(const at::Tensor& weight, const at::Tensor& ids);

}  // namespace hanse
