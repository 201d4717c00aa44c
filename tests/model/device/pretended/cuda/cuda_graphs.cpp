#include "model/device/pretended/cuda/cuda_graphs.hpp"

#include <set>

#include <c10/util/Exception.h>

namespace {

using hanse::pretended::Device;

// Pools that LibTorch's allocator takes memory from.
std::set<uint64_t>& allocating() {
  static auto* pools = new std::set<uint64_t>;
  return *pools;
}

}  // namespace

namespace c10::cuda {

CUDAStream getCurrentCUDAStream() {
  const std::lock_guard lock(Device::get().mutex);
  return {&Device::get().stream()};
}

CUDAStream getStreamFromPool() {
  const std::lock_guard lock(Device::get().mutex);
  return {&Device::get().make_stream()};
}

CUDAStreamGuard::CUDAStreamGuard(CUDAStream stream) {
  const std::lock_guard lock(Device::get().mutex);
  before_ = &Device::get().choose(*stream.stream);
}

CUDAStreamGuard::~CUDAStreamGuard() {
  const std::lock_guard lock(Device::get().mutex);
  Device::get().choose(*before_);
}

}  // namespace c10::cuda

namespace c10::cuda::CUDACachingAllocator {

void endAllocateToPool(int, Pool pool) {
  const std::lock_guard lock(Device::get().mutex);
  TORCH_CHECK(allocating().erase(pool.second) == 1, "the pool is not recorded to");
}

void releasePool(int, Pool pool) {
  const std::lock_guard lock(Device::get().mutex);
  Device::get().release_pool(static_cast<int64_t>(pool.second));
}

}  // namespace c10::cuda::CUDACachingAllocator

namespace at::cuda {

void CUDAEvent::record(const c10::cuda::CUDAStream& stream) {
  const std::lock_guard lock(Device::get().mutex);
  event_ = Device::get().event(*stream.stream);
}

void CUDAEvent::block(const c10::cuda::CUDAStream& stream) {
  const std::lock_guard lock(Device::get().mutex);
  Device::get().put_behind(event_, *stream.stream);
}

MempoolId_t graph_pool_handle() {
  const std::lock_guard lock(Device::get().mutex);
  return {0, static_cast<uint64_t>(Device::get().make_pool())};
}

// As LibTorch's: the allocator is told before CUDA is asked, and of the end behind CUDA's answer.
void CUDAGraph::capture_begin(MempoolId_t pool, cudaStreamCaptureMode) {
  const std::lock_guard lock(Device::get().mutex);
  Device::get().hold_pool(static_cast<int64_t>(pool.second));
  allocating().insert(pool.second);
  Device::get().begin_recording(static_cast<int64_t>(pool.second));
}

void CUDAGraph::capture_end() {
  const std::lock_guard lock(Device::get().mutex);
  graph_ = std::make_shared<const hanse::pretended::Graph>(Device::get().end_recording());
  allocating().erase(static_cast<uint64_t>(graph_->pool));
}

void CUDAGraph::replay() {
  const std::lock_guard lock(Device::get().mutex);
  Device::get().replay(graph_);
}

CUDAGraph::~CUDAGraph() {
  const std::lock_guard lock(Device::get().mutex);
  if (graph_) Device::get().release_pool(graph_->pool);
}

}  // namespace at::cuda
