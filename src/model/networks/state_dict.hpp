// A model's tensors for Python.
#pragma once

#include <span>
#include <string>

#include "hanse/model/layout.hpp"

namespace hanse {

// As TorchLibrary::state_dict.
std::string state_dict(const ParameterLayout& layout, std::span<const float> row);

// As TorchLibrary::read_state_dict.
std::vector<NamedTensor> read_state_dict(const std::string& path);

}  // namespace hanse
