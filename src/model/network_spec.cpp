#include "network_spec.hpp"

#include <algorithm>

namespace hanse {

int64_t output_side(const std::vector<ConvolutionStage>& stages, int64_t side) {
  for (const ConvolutionStage& stage : stages) {
    side += 2 * stage.padding - stage.kernel + 1;
    if (stage.pool) side /= 2;
  }
  return side;
}

int64_t output_values(const std::vector<ConvolutionStage>& stages,
                      const std::vector<int64_t>& sample_shape) {
  return stages.back().channels * output_side(stages, sample_shape[1]) *
         output_side(stages, sample_shape[2]);
}

NetworkSpec linear_spec(const ModelOptions& options, const std::vector<int64_t>&) {
  return {.bias = options.bias};
}

NetworkSpec mlp_spec(const ModelOptions& options, const std::vector<int64_t>&) {
  return {.hidden = options.hidden};
}

// Caldas et al. 2018, LEAF: the FEMNIST model (6.6M parameters for 62 classes).
NetworkSpec leaf_spec(const ModelOptions&, const std::vector<int64_t>&) {
  return {{{32, 5, 2, true}, {64, 5, 2, true}}, {2048}};
}

// Granqvist et al. 2024, pfl-research: the CIFAR-10 model (1.6M parameters).
NetworkSpec cifar_spec(const ModelOptions&, const std::vector<int64_t>&) {
  return {{{32, 3, 0, false}, {64, 3, 0, true}}, {128}, 0.25, 0.5};
}

// McMahan et al. 2017: the CNN of their MNIST tasks (1,663,370 parameters for 10 classes).
NetworkSpec mcmahan_spec(const ModelOptions&, const std::vector<int64_t>&) {
  return {{{32, 5, 2, true}, {64, 5, 2, true}}, {512}};
}

// ByzFL's network of its MNIST benchmark (431,080 parameters for 10 classes).
NetworkSpec byzfl_spec(const ModelOptions&, const std::vector<int64_t>&) {
  return {{{20, 5, 0, true}, {50, 5, 0, true}}, {500}};
}

// LeCun et al. 1998, LeNet-5, with ReLU and max pooling. Its input is 32x32; smaller images, like
// the 28x28 of MNIST, are padded by 2.
NetworkSpec lenet_spec(const ModelOptions&, const std::vector<int64_t>& sample_shape) {
  const bool large = sample_shape.size() == 3 && std::min(sample_shape[1], sample_shape[2]) >= 32;
  return {{{6, 5, large ? 0 : 2, true}, {16, 5, 0, true}}, {120, 84}};
}

}  // namespace hanse
