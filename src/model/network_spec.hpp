// What the convolutional networks of the federated-learning literature are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hanse/model/options.hpp"

namespace hanse {

// Convolution with stride 1, then 2x2 max pooling or not, then ReLU. padding < kernel.
struct ConvolutionStage {
  int64_t channels, kernel, padding;
  bool pool;
};

// What the stages make of the side of an image; below 1: it is too small for them.
int64_t output_side(const std::vector<ConvolutionStage>& stages, int64_t side);
// Values that the stages leave of a sample {channels, height, width}. REQUIRES: a stage.
int64_t output_values(const std::vector<ConvolutionStage>& stages,
                      const std::vector<int64_t>& sample_shape);

struct NetworkSpec {
  std::vector<ConvolutionStage> stages;
  std::vector<int64_t> hidden;  // dense layers between the features and the logits
  double feature_dropout = 0;
  double hidden_dropout = 0;
  bool bias = true;  // of the dense layers
};

// What a network of these options is made of, for kinds that are made of this alone: linear
// (neither stages nor hidden layers), mlp (hidden layers), the cnn kinds and lenet. zoo.cpp has the
// kinds. Its layout: conv1.weight, conv1.bias, ..., fc1.weight, fc1.bias, ...
std::optional<NetworkSpec> network_spec(const ModelOptions& options,
                                        const std::vector<int64_t>& sample_shape);

// The networks of these kinds.
NetworkSpec linear_spec(const ModelOptions& options, const std::vector<int64_t>& sample_shape);
NetworkSpec mlp_spec(const ModelOptions& options, const std::vector<int64_t>& sample_shape);
NetworkSpec leaf_spec(const ModelOptions& options, const std::vector<int64_t>& sample_shape);
NetworkSpec cifar_spec(const ModelOptions& options, const std::vector<int64_t>& sample_shape);
NetworkSpec mcmahan_spec(const ModelOptions& options, const std::vector<int64_t>& sample_shape);
NetworkSpec byzfl_spec(const ModelOptions& options, const std::vector<int64_t>& sample_shape);
NetworkSpec lenet_spec(const ModelOptions& options, const std::vector<int64_t>& sample_shape);

}  // namespace hanse
