// What the convolutional networks of the federated-learning literature are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hanse {

// Convolution with stride 1, then 2x2 max pooling or not, then ReLU.
struct ConvolutionStage {
  int64_t channels, kernel, padding;
  bool pool;

  int64_t output_side(int64_t side) const;
};

struct NetworkSpec {
  std::vector<ConvolutionStage> stages;
  std::vector<int64_t> hidden;  // dense layers between the features and the logits
  double feature_dropout = 0;
  double hidden_dropout = 0;
};

// What a network of this kind is made of. Its layout: conv1.weight, conv1.bias, ..., fc1.weight,
// fc1.bias, ...
NetworkSpec network_spec(const std::string& kind, const std::vector<int64_t>& sample_shape);

}  // namespace hanse
