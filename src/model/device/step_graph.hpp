// A step's kernels, recorded once and started together.
#pragma once

#include <functional>
#include <memory>

#include <ATen/ATen.h>

namespace hanse {

// For steps whose kernels have the same shapes and addresses every time.
class StepGraph {
 public:
  virtual ~StepGraph() = default;

  // Does what `step` starts on the device: the first time by calling it, the second time by
  // recording it, and from then on without it. Where recording fails it says so once, and calls
  // `step` from then on. Does not wait.
  virtual void run(const std::function<void()>& step) = 0;

  // The next step is another one.
  virtual void forget() = 0;
};

// Null: there is nothing to record on this device.
std::unique_ptr<StepGraph> make_step_graph(const at::Device& device);

}  // namespace hanse
