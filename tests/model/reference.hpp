// The models written once more, plainly, on LibTorch in float64.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hanse/model/model.hpp"

namespace hanse {

struct Reference {
  double loss = 0;              // mean over the batch
  double correct = 0;           // samples classified correctly, 0 for regression
  std::vector<float> gradient;  // [P]
};

// Loss and gradient by autograd, without dropout; `groups` of group norm.
Reference reference(const std::string& kind, const std::string& loss, const Model& model,
                    const std::vector<int64_t>& sample_shape, std::span<const float> row,
                    const Batch& batch, int64_t groups = 2);

// H v by autograd twice, without dropout.
std::vector<float> reference_hessian_vector(const std::string& kind, const std::string& loss,
                                            const Model& model,
                                            const std::vector<int64_t>& sample_shape,
                                            std::span<const float> row, const Batch& batch,
                                            std::span<const float> v);

}  // namespace hanse
