#include "model/device/pretended/cuda/cuda_graphs.hpp"

#include <set>

#include <c10/util/Exception.h>

namespace {

hanse::pretended::Device& pretended_device() { return hanse::pretended::Device::get(); }

// Pools that LibTorch's allocator takes memory from.
std::set<uint64_t>& allocating() {
  static auto* pools = new std::set<uint64_t>;
  return *pools;
}

}  // namespace

namespace c10::cuda {

CUDAStream getCurrentCUDAStream() {
  const std::lock_guard lock(pretended_device().mutex);
  return {&pretended_device().stream()};
}

CUDAStream getStreamFromPool() {
  const std::lock_guard lock(pretended_device().mutex);
  return {&pretended_device().make_stream()};
}

CUDAStreamGuard::CUDAStreamGuard(CUDAStream stream) {
  const std::lock_guard lock(pretended_device().mutex);
  before_ = &pretended_device().choose(*stream.own);
}

CUDAStreamGuard::~CUDAStreamGuard() {
  const std::lock_guard lock(pretended_device().mutex);
  pretended_device().choose(*before_);
}

}  // namespace c10::cuda

namespace c10::cuda::CUDACachingAllocator {

void endAllocateToPool(int, Pool pool) {
  const std::lock_guard lock(pretended_device().mutex);
  TORCH_CHECK(allocating().erase(pool.second) == 1, "the pool is not recorded to");
}

void releasePool(int, Pool pool) {
  const std::lock_guard lock(pretended_device().mutex);
  pretended_device().release_pool(static_cast<int64_t>(pool.second));
}

}  // namespace c10::cuda::CUDACachingAllocator

namespace at::cuda {

void CUDAEvent::record(const c10::cuda::CUDAStream& stream) {
  const std::lock_guard lock(pretended_device().mutex);
  event_ = pretended_device().event(*stream.own);
}

void CUDAEvent::block(const c10::cuda::CUDAStream& stream) {
  const std::lock_guard lock(pretended_device().mutex);
  pretended_device().put_behind(event_, *stream.own);
}

MempoolId_t graph_pool_handle() {
  const std::lock_guard lock(pretended_device().mutex);
  return {0, static_cast<uint64_t>(pretended_device().make_pool())};
}

// As LibTorch's: the allocator is told before CUDA is asked, and of the end behind CUDA's answer.
void CUDAGraph::capture_begin(MempoolId_t pool, cudaStreamCaptureMode) {
  const std::lock_guard lock(pretended_device().mutex);
  pretended_device().hold_pool(static_cast<int64_t>(pool.second));
  allocating().insert(pool.second);
  pretended_device().begin_recording(static_cast<int64_t>(pool.second));
}

void CUDAGraph::capture_end() {
  const std::lock_guard lock(pretended_device().mutex);
  graph_ = std::make_shared<const hanse::pretended::Graph>(pretended_device().end_recording());
  allocating().erase(static_cast<uint64_t>(graph_->pool));
}

void CUDAGraph::replay() {
  const std::lock_guard lock(pretended_device().mutex);
  pretended_device().replay(graph_);
}

CUDAGraph::~CUDAGraph() {
  const std::lock_guard lock(pretended_device().mutex);
  if (graph_) pretended_device().release_pool(graph_->pool);
}

}  // namespace at::cuda
