// A model's tensors for Python.
#pragma once

#include <span>
#include <string>

#include "hanse/model/layout.hpp"

namespace hanse {

// As TorchLibrary::state_dict.
std::string state_dict(const ParameterLayout& layout, std::span<const float> row);

}  // namespace hanse
