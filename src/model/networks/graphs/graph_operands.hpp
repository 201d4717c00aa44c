// What the kernels of graphs take and give.
#pragma once

#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace hanse {

// The arguments of a call, by their places in the schema.
using GraphArguments = std::vector<const c10::IValue*>;

// The operator's result, as it returns it: a tensor of its own, a view of an argument, or the
// argument that was changed. None: arguments that the kernel does not know, and nothing was done;
// then LibTorch's kernel takes them. An operation on an element is rounded as LibTorch's is.
using GraphKernel = c10::IValue (*)(const GraphArguments& arguments);

// Memory for a result, unwritten.
inline at::Tensor new_tensor(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::detail::empty_cpu(sizes, type);
}

}  // namespace hanse
