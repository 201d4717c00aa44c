// Probabilities of classes from the logits of a sample.
#pragma once

#include <span>

namespace hanse {

// p_k = exp(z_k - max z) / sum; all NaN where a logit is NaN or the largest is infinite.
void softmax(std::span<const float> z, std::span<double> p);

}  // namespace hanse
