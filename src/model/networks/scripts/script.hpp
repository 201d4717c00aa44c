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

// The module of a file that the option `key` names. Throws InvalidArgument, with `hint` when there
// is no such file.
torch::jit::Module read_script(const std::string& path, const std::string& key,
                               const std::string& hint);

// While it lives, this thread alone has LibTorch's generator of random numbers of the device, which
// begins with the seed, and graphs run as they are: what the interpreter would make of one depends
// on how often it ran.
class ScriptCall {
 public:
  ScriptCall(uint64_t seed, const at::Device& device);

 private:
  std::lock_guard<std::mutex> generator_;
  torch::jit::GraphOptimizerEnabledGuard as_it_is_;
};

}  // namespace hanse
