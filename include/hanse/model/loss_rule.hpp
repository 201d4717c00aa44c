// The losses that kernels and tensors have, too.
#pragma once

#include <cstdint>

namespace hanse {

enum class LossRule : int64_t { kCrossEntropy, kBinaryLogistic, kSquaredError };

}  // namespace hanse
