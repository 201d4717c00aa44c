#include "network_spec.hpp"

#include <algorithm>

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

}  // namespace

int64_t ConvolutionStage::output_side(int64_t side) const {
  const int64_t convolved = side + 2 * padding - kernel + 1;
  return pool ? convolved / 2 : convolved;
}

NetworkSpec network_spec(const std::string& kind, const std::vector<int64_t>& sample_shape) {
  if (kind == "cnn-leaf") return leaf_spec();
  if (kind == "cnn-cifar") return cifar_spec();
  return lenet_spec(sample_shape);
}

}  // namespace hanse
