// The losses that kernels and tensors implement, too.
#pragma once

#include <array>
#include <cstdint>

namespace hanse {

enum class LossRule : int64_t { kCrossEntropy, kBinaryLogistic, kSquaredError };
constexpr auto choices_of(LossRule) {
  return std::array{"cross-entropy", "binary-logistic", "squared-error"};
}

}  // namespace hanse
