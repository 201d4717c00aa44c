// A step's kernels, recorded once and started together.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace hanse {

// What can record kernels on a device.
class GraphRecorder {
 public:
  using Step = std::function<void()>;

  virtual ~GraphRecorder() = default;
  // Runs a step where it is recorded later, so that what libraries make at its first run is there.
  virtual void warm_up(const Step& step) = 0;
  // Records what `step` starts, which does not run. Throws where it cannot be recorded.
  virtual void record(const Step& step) = 0;
  // Starts what was recorded last. Does not wait.
  virtual void replay() = 0;
};

// The recorder for the device in use; null: nothing is recorded there.
std::unique_ptr<GraphRecorder> make_graph_recorder(bool is_cpu);

// For steps whose kernels have the same shapes and addresses every time.
class StepGraph {
 public:
  explicit StepGraph(std::unique_ptr<GraphRecorder> recorder) : recorder_(std::move(recorder)) {}

  // Does what `step` starts on the device: the first time by calling it, the second time by
  // recording it, and from then on without it. Where recording fails it says so once, and calls
  // `step` from then on.
  void run(const GraphRecorder::Step& step);

  // The next step is another one.
  void forget() {
    if (state_ != State::kFailed) state_ = State::kNew;
  }

 private:
  enum class State { kNew, kWarm, kRecorded, kFailed };

  std::unique_ptr<GraphRecorder> recorder_;
  State state_ = State::kNew;
};

}  // namespace hanse
