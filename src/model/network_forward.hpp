// The networks of zoo.cpp with a leading dimension of clients, each with parameters of its own.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

#include "networks.hpp"

namespace hanse {

// Dense layers are batched products, convolutions are grouped: the clients' images stand in the
// channels of one. No kernel among them adds in an undefined order: max pooling, whose gradient
// CUDA scatters with atomic additions, is made of comparisons.
class BatchedNetwork {
 public:
  struct Dropout {
    int64_t width;  // values a sample
    double share;
  };

  // `bias`: of the dense layers.
  BatchedNetwork(NetworkSpec spec, const std::vector<int64_t>& sample_shape, bool bias);

  // In the order in which a forward pass meets them; only those with a share above 0.
  const std::vector<Dropout>& dropouts() const { return dropouts_; }

  // [C, B, outputs] of input [C, B, values of a sample]. `leaves` are the tensors of the layout,
  // each with a leading C; masks[d] [C, B, width] multiply what dropouts()[d] drops from; without
  // masks nothing is dropped.
  at::Tensor logits(const std::vector<at::Tensor>& leaves, const at::Tensor& input,
                    const std::vector<at::Tensor>& masks) const;

 private:
  at::Tensor convolve(const std::vector<at::Tensor>& leaves, const at::Tensor& input) const;

  NetworkSpec spec_;
  std::vector<int64_t> sample_shape_;
  bool bias_;
  std::vector<Dropout> dropouts_;
};

}  // namespace hanse
