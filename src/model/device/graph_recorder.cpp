#include <exception>
#include <memory>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "device/step_graph.hpp"

namespace hanse {

namespace {

class CudaRecorder final : public GraphRecorder {
 public:
  CudaRecorder() : aside_(c10::cuda::getStreamFromPool()) {}

  // On the stream that is recorded: libraries make some things once for each stream.
  void warm_up(const Step& step) override {
    c10::cuda::device_synchronize();
    const c10::cuda::CUDAStreamGuard guard(aside_);
    step();
    c10::cuda::device_synchronize();
  }

  void record(const Step& step) override {
    graph_.reset();
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
    } catch (const std::exception&) {
      cudaGetLastError();  // is told here, and not to whoever asks next
      throw;
    }
    graph_ = std::move(graph);
  }

  void replay() override { graph_->replay(); }

 private:
  // A recording that has failed, which ends with an error of its own.
  static void end(at::cuda::CUDAGraph& graph) {
    try {
      graph.capture_end();
    } catch (const std::exception&) {
    }
  }

  c10::cuda::CUDAStream aside_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<GraphRecorder> make_graph_recorder(bool is_cpu) {
  if (is_cpu) return nullptr;
  return std::make_unique<CudaRecorder>();
}

}  // namespace hanse
