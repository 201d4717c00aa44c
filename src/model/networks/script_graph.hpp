// What the graph of a module says of it before it runs.
#pragma once

#include <string>

#include <torch/script.h>

namespace hanse {

// "dropout, batch_norm": operators whose training flag is a constant in the graph of forward, so
// that they do the same in training and in evaluation; empty: none. Those count that would differ:
// dropout of a share, norms with running statistics. A branch on self.training may have any.
std::string frozen_operators(const torch::jit::Module& module);

// "softmax", "log_softmax" or "sigmoid", when the result of forward is that; else empty.
std::string last_activation(const torch::jit::Module& module);

}  // namespace hanse
