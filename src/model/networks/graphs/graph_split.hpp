// Matrices W = W_0 + s B A of graphs that are never formed: x W' = x W_0' + s (x A') B'.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "networks/graphs/graph_program.hpp"

namespace hanse {

// W_0 is the value of an input. On W_0's device.
struct SplitMatrix {
  at::Tensor a, b;  // [rank, in], [out, rank]
  double scale = 1;
};

// A node that reads a matrix, or a view of it.
struct SplitUse {
  enum class Kind { kFirst, kSecond, kLinear, kLookUp };  // W x, x W, x W' + bias, rows of W
  Kind kind;
  bool transposed;  // what it reads is W'
  int64_t other;    // the value of x, or of the rows' numbers
  int64_t matrix;   // the input
};

using SplitUses = std::multimap<int64_t, SplitUse>;  // by their nodes

// All uses of an input, a matrix; none: one of them is no product and no look-up.
std::optional<SplitUses> split_uses(const GraphProgram& program, int64_t matrix);

// The node that makes this gradient, if it is a product of two matrices that nobody else reads.
std::optional<int64_t> factored_gradient(const GraphProgram& program, int64_t gradient);

// Adds what A and B make of the node's result, which is that of W_0. Cost: rank (in + out)
// multiply-adds a row of x. REQUIRES: the result has memory of its own.
void add_split(const SplitUse& use, const SplitMatrix& matrix,
               const std::vector<c10::IValue>& values, const at::Tensor& result);

}  // namespace hanse
