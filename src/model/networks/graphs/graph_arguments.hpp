// From the arguments of a graph file to those of LibTorch's operators.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include "graphs/graph_file.hpp"

namespace hanse {

// An argument for that place of a schema, a batch of `rows` and a device. What holds values is
// left empty: they come with each pass. Throws std::invalid_argument: it does not fit.
c10::IValue converted(const GraphArgument& argument, const c10::Argument& place, int64_t rows,
                      at::Device device);

bool holds_rows(const GraphArgument& argument);

// The arguments of a node by the schema's places, null: its default. Throws std::invalid_argument:
// too many, of no name, missing.
std::vector<const GraphArgument*> placed(const GraphNode& node, const c10::FunctionSchema& schema);

}  // namespace hanse
