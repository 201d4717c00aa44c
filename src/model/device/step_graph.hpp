// Steps' kernels, recorded once and started together.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

namespace hanse {

// Kernels that were recorded.
class Recording {
 public:
  virtual ~Recording() = default;
  // Starts them. Does not wait.
  virtual void replay() = 0;
};

// A stream of a device beside the current one, and what can record kernels there.
class GraphRecorder {
 public:
  using Work = std::function<void()>;

  virtual ~GraphRecorder() = default;
  // Does `work` aside, behind what the current stream has had so far: where it is recorded later,
  // so that what libraries make at its first run is there.
  virtual void start(const Work& work) = 0;
  // What the current stream gets from now on comes behind what was started.
  virtual void join() = 0;
  // Records what `work` starts, which does not run. Throws where it cannot be recorded.
  virtual std::unique_ptr<Recording> record(const Work& work) = 0;
};

// The recording of `work`; null, and it says so, where it cannot be recorded.
std::unique_ptr<Recording> recorded_or_said(GraphRecorder& recorder,
                                            const GraphRecorder::Work& work);

// A recorder for the device in use; null: nothing is recorded there.
std::unique_ptr<GraphRecorder> make_graph_recorder(bool is_cpu);

// Graphs of steps that follow each other, for each kind of step: steps of a kind have the same
// kernels, with the same shapes and addresses.
class StepGraphs {
 public:
  using Kind = std::tuple<double, bool, bool, int64_t>;  // Descent::Form and the acting clients
  using Steps = std::function<void(int64_t count)>;

  // `most`: steps that one graph holds at most.
  StepGraphs(std::unique_ptr<GraphRecorder> recorder, int64_t most)
      : recorder_(std::move(recorder)), most_(most) {}

  // Does steps(count) on the device: the first step of a kind by calling it, then by recording it,
  // and from then on without it. A graph has as many steps as there are where a kind has so many
  // twice in a row, as those of equal clients have; else a power of two, lest each of many numbers
  // be recorded. Where recording fails it says so once, and calls `steps` from then on.
  void run(const Kind& kind, int64_t count, const Steps& steps);

  // Drops all recordings: the addresses that they use have changed.
  void forget() { kinds_.clear(); }

 private:
  std::unique_ptr<GraphRecorder> recorder_;
  int64_t most_;
  bool fails_ = false;
  struct Graphs {
    int64_t last_count = 0;
    std::map<int64_t, std::unique_ptr<Recording>> of;  // so many steps
  };
  std::map<Kind, Graphs> kinds_;
};

}  // namespace hanse
