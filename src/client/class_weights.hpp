// What a sample counts in its client's loss, by its class: client.class-weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/client/options.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// Balanced weights, n / (k n_c) of a class with n_c of n samples in k classes, whose mean over the
// samples is 1; 0 of a class without samples.
class ClassWeights {
 public:
  // Throws InvalidArgument where options.class_weights is no such word or list, or fits no data.
  ClassWeights(const LossOptions& options, const Federation& federation);

  // [classes] for a client whose samples are begin + order[i], until the next call; null: all 1.
  const float* of(int64_t begin, std::span<const int32_t> order);

 private:
  void balance(std::span<const int64_t> counts);

  const Federation& federation_;
  bool of_client_ = false;
  std::vector<float> weights_;  // [classes]; empty: all 1
};

}  // namespace hanse
