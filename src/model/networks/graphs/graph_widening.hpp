// Parameters of graphs that lie in memory as bfloat16.
#pragma once

#include <vector>

#include <ATen/core/ivalue.h>

#include "networks/graphs/graph_program.hpp"

namespace hanse {

// As GraphProgram::run(), where the inputs that are marked in `narrow` [inputs] are bfloat16. What
// only views them stays bfloat16; what reads them gets float32 tensors of the same strides, which
// live as long as it runs; a look-up widens what it has found. So the results are those of float32
// inputs of these values, to the bit. Cost: a pass over what is widened.
void run_widened(GraphProgram& program, int64_t node, const std::vector<char>& narrow,
                 std::vector<c10::IValue>& values, MaskSource* masks);

}  // namespace hanse
