// Layers of graphs on few values: batch norm and max pooling (graph_operands.hpp).
#pragma once

#include "networks/graphs/graph_operands.hpp"

namespace hanse {

// aten::native_batch_norm in training, and its gradient. Sums are of doubles.
c10::IValue batch_norm(const GraphArguments& arguments);
c10::IValue batch_norm_back(const GraphArguments& arguments);

// aten::max_pool2d_with_indices of windows that are whole.
c10::IValue max_pool(const GraphArguments& arguments);

}  // namespace hanse
