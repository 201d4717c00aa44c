// Checks of arguments that LibTorch's kernels trust: in a graph of somebody else's they may be
// anything, and a kernel would read or write outside of its tensors, or divide by zero.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

namespace hanse {

// Throws std::invalid_argument. Cost: sizes; where places in a tensor are values, a pass over them.
using GraphGuard = void (*)(const std::vector<c10::IValue>& arguments);

// The check of an operator, by its name; null: its kernel checks all itself.
GraphGuard graph_guard(const std::string& op);

}  // namespace hanse
