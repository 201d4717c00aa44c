// Values after which training cannot go on.
#pragma once

#include <span>
#include <string>

#include "hanse/model/layout.hpp"

namespace hanse {

// "fc1.weight has 3 values of 40 that are not finite, the first nan"; empty: all are.
std::string not_finite(const std::string& name, std::span<const float> values);
// Describes the first such tensor of a row, whose last tensors may be missing.
std::string not_finite(const ParameterLayout& layout, std::span<const float> row);

}  // namespace hanse
