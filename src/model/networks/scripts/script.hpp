// Files of TorchScript, and what every call of them needs.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <string>

#include <torch/script.h>

namespace hanse {

// LibTorch's message without its trace: one line.
std::string one_line(const std::exception& error);

// The module of a file that the option `key` names, with all its tensors on that device; `compared`
// gets the rows in which hanse.export has compared the file with its module (0: not told). Throws
// InvalidArgument, with `hint` when there is no such file.
torch::jit::Module read_script(const std::string& path, const std::string& key,
                               const std::string& hint, at::Device device = at::kCPU,
                               int64_t* compared = nullptr);

// While it lives, this thread alone has LibTorch's generators of random numbers; those of the CPU
// and of the device begin with the seed, and graphs run as they are: what the interpreter would
// make of one depends on how often it ran.
class ScriptCall {
 public:
  explicit ScriptCall(uint64_t seed, at::Device device = at::kCPU);

 private:
  std::lock_guard<std::mutex> generator_;
  torch::jit::GraphOptimizerEnabledGuard as_it_is_;
};

}  // namespace hanse
