#include <exception>
#include <memory>
#include <mutex>

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "device/step_graph.hpp"

namespace hanse {

namespace {

// One recording at a time: ranks may be threads, and LibTorch's generator of a GPU is part of a
// recording.
std::mutex& one_recording() {
  static std::mutex mutex;
  return mutex;
}

// What `later` is given from here on runs behind what `earlier` has been given. The host does not
// wait: CUDA ends another thread's recording when this one waits for the device.
void put_behind(const c10::cuda::CUDAStream& earlier, const c10::cuda::CUDAStream& later) {
  at::cuda::CUDAEvent event;
  event.record(earlier);
  event.block(later);
}

class CudaRecorder final : public GraphRecorder {
 public:
  CudaRecorder() : aside_(c10::cuda::getStreamFromPool()) {}

  // Runs on the stream that is recorded: libraries make some things once for each stream.
  void warm_up(const Step& step) override {
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream();
    put_behind(current, aside_);
    {
      const c10::cuda::CUDAStreamGuard guard(aside_);
      step();
    }
    put_behind(aside_, current);
  }

  void record(const Step& step) override {
    graph_.reset();
    const std::lock_guard lock(one_recording());
    const c10::cuda::CUDAStreamGuard guard(aside_);
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    const Pool pool = at::cuda::graph_pool_handle();
    try {
      // Other threads, NCCL's among them, go on with what they do.
      graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      step();
      graph->capture_end();
    } catch (const std::exception&) {
      abandon(*graph, pool);
      throw;
    }
    graph_ = std::move(graph);
  }

  void replay() override { graph_->replay(); }

 private:
  using Pool = decltype(at::cuda::graph_pool_handle());

  // A recording that has failed ends with an error of its own, mostly before LibTorch's allocator
  // is told of the end: without that it would keep memory for the recording for ever.
  void abandon(at::cuda::CUDAGraph& graph, Pool pool) const {
    try {
      graph.capture_end();
    } catch (const std::exception&) {
    }
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(aside_.device_index(), pool);
      c10::cuda::CUDACachingAllocator::releasePool(aside_.device_index(), pool);
    } catch (const std::exception&) {  // it has been told
    }
    cudaGetLastError();  // is told here, and not to whoever asks next
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
