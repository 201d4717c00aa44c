// What the graph of a module says of it before it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/script.h>

#include "graphs/graph_facts.hpp"

namespace hanse {

// "dropout, batch_norm": operators whose training flag is a constant in the graph of forward, so
// that they do the same in training and in evaluation; empty: none. Those count that would differ:
// dropout of a share, norms with running statistics. A branch on self.training may have any, but
// for dropout in evaluation.
std::string frozen_operators(const torch::jit::Module& module);

// Does forward move a running mean by a share that is made of a tensor? Batch norm with a
// cumulative mean (momentum=None) does, by its count of batches.
bool has_cumulative_mean(const torch::jit::Module& module);

// "softmax", "log_softmax" or "sigmoid", when the result of forward is that, in whatever shape;
// else empty.
std::string last_activation(const torch::jit::Module& module);

// The parts of samples of that shape that forward converts to integers as they are: its argument,
// or slices of samples of one axis.
std::vector<IntegerPart> integer_parts(const torch::jit::Module& module,
                                       const std::vector<int64_t>& sample_shape);

}  // namespace hanse
