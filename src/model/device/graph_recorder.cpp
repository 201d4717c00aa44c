#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "device/step_graph.hpp"

namespace hanse {

namespace {

// One recording at a time, and none while a graph is given back: ranks may be threads, and
// LibTorch's generator of a GPU keeps a list of the graphs without a lock of its own.
std::mutex& list_of_graphs() {
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

using Pool = decltype(at::cuda::graph_pool_handle());

class CudaRecording final : public Recording {
 public:
  CudaRecording(std::unique_ptr<at::cuda::CUDAGraph> graph, std::shared_ptr<Pool> pool)
      : graph_(std::move(graph)), pool_(std::move(pool)) {}
  ~CudaRecording() override {
    const std::lock_guard lock(list_of_graphs());
    graph_.reset();
  }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  void replay() override { graph_->replay(); }

 private:
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  std::shared_ptr<Pool> pool_;
};

class CudaRecorder final : public GraphRecorder {
 public:
  CudaRecorder() : aside_(c10::cuda::getStreamFromPool()) {}

  // Runs on the stream that is recorded: libraries make some things once for each stream.
  void start(const Work& work) override {
    put_behind(c10::cuda::getCurrentCUDAStream(), aside_);
    const c10::cuda::CUDAStreamGuard guard(aside_);
    work();
  }
  void join() override { put_behind(aside_, c10::cuda::getCurrentCUDAStream()); }

  // Recordings have one pool of memory: they run one after the other, and leave nothing there for
  // the next one. When the last of them is gone, LibTorch gives the pool back, and takes no more
  // recordings for it.
  std::unique_ptr<Recording> record(const Work& work) override {
    if (pool_.use_count() < 2) pool_ = std::make_shared<Pool>(at::cuda::graph_pool_handle());
    std::unique_lock lock(list_of_graphs());
    const c10::cuda::CUDAStreamGuard guard(aside_);
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    try {
      // Other threads, NCCL's among them, go on with what they do.
      graph->capture_begin(*pool_, cudaStreamCaptureModeThreadLocal);
      work();
      graph->capture_end();
    } catch (const std::exception&) {
      abandon(*graph);
      graph.reset();
      throw;
    }
    lock.unlock();
    return std::make_unique<CudaRecording>(std::move(graph), pool_);
  }

 private:
  // A recording that has failed ends with an error of its own, mostly before LibTorch's allocator
  // is told of the end: without that it would keep memory for the recording for ever.
  void abandon(at::cuda::CUDAGraph& graph) const {
    try {
      graph.capture_end();
    } catch (const std::exception&) {
    }
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(aside_.device_index(), *pool_);
      c10::cuda::CUDACachingAllocator::releasePool(aside_.device_index(), *pool_);
    } catch (const std::exception&) {  // it has been told
    }
    cudaGetLastError();  // is told here, and not to whoever asks next
  }

  c10::cuda::CUDAStream aside_;
  std::shared_ptr<Pool> pool_;  // each recording has it, too
};

}  // namespace

std::unique_ptr<GraphRecorder> make_graph_recorder(bool is_cpu) {
  if (is_cpu) return nullptr;
  return std::make_unique<CudaRecorder>();
}

}  // namespace hanse
