// Convolutional networks of the federated-learning literature.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hanse/model/model.hpp"

namespace hanse {

// kind = cnn-leaf | cnn-cifar | lenet. Throws InvalidArgument when a sample is no image {channels,
// height, width} or is too small for the layers.
std::unique_ptr<Model> make_network(const std::string& kind,
                                    const std::vector<int64_t>& sample_shape, LossKind loss,
                                    int64_t outputs);

}  // namespace hanse
