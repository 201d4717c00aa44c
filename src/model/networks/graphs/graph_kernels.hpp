// Operators of graphs that are computed without LibTorch's dispatcher, which takes longer than they
// do where tensors are small.
#pragma once

#include <string>

#include "networks/graphs/graph_operands.hpp"

namespace hanse {

// Null: none. `name` has the overload, "aten::mul.Tensor".
GraphKernel graph_kernel(const std::string& name);

}  // namespace hanse
