#include "device/step_graph.hpp"

#include <exception>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "hanse/base/log.hpp"

namespace hanse {

namespace {

class RecordedStep final : public StepGraph {
 public:
  RecordedStep() : aside_(c10::cuda::getStreamFromPool()) {}

  void run(const std::function<void()>& step) override {
    if (graph_) return graph_->replay();
    if (failed_) return step();
    if (!is_warm_) {
      warm_up(step);
    } else if (record(step)) {
      graph_->replay();
    } else {
      step();
    }
  }

  void forget() override {
    graph_.reset();
    is_warm_ = false;
  }

 private:
  // On the stream that is recorded, so that what libraries make once for each stream is there.
  void warm_up(const std::function<void()>& step) {
    c10::cuda::device_synchronize();
    const c10::cuda::CUDAStreamGuard guard(aside_);
    step();
    c10::cuda::device_synchronize();
    is_warm_ = true;
  }

  bool record(const std::function<void()>& step) {
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    c10::cuda::device_synchronize();
    try {
      const c10::cuda::CUDAStreamGuard guard(aside_);
      // Other threads, NCCL's among them, go on with what they do.
      graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      try {
        step();
      } catch (const std::exception&) {
        end(*graph);
        throw;
      }
      graph->capture_end();
    } catch (const std::exception& error) {
      cudaGetLastError();  // is told here, and not to whoever asks next
      notice(fmt::format("a step is not recorded, its kernels are started one by one: {}",
                         first_line(error)));
      failed_ = true;
      return false;
    }
    graph_ = std::move(graph);
    return true;
  }

  // A recording that has failed, which ends with an error of its own.
  static void end(at::cuda::CUDAGraph& graph) {
    try {
      graph.capture_end();
    } catch (const std::exception&) {
    }
  }

  static std::string first_line(const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }

  c10::cuda::CUDAStream aside_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  bool is_warm_ = false;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<StepGraph> make_step_graph(const at::Device& device) {
  if (device.is_cpu()) return nullptr;
  return std::make_unique<RecordedStep>();
}

}  // namespace hanse
