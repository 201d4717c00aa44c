#include "model/device/pretended/cuda/cuda_graphs.hpp"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>

namespace {

hanse::pretended::Device& pretended_device() { return hanse::pretended::Device::get(); }

// Pools that LibTorch's allocator takes memory from.
std::set<uint64_t>& allocating() {
  static auto* pools = new std::set<uint64_t>;
  return *pools;
}

void allocate_to(uint64_t pool) {
  allocating().insert(pool);
  hanse::pretended::recordings().allocating = static_cast<int>(allocating().size());
}

bool end_allocating(uint64_t pool) {
  const bool was_there = allocating().erase(pool) == 1;
  hanse::pretended::recordings().allocating = static_cast<int>(allocating().size());
  return was_there;
}

// LibTorch's generator has a list of the graphs, without a lock.
void enter_list() {
  auto& counts = hanse::pretended::recordings();
  counts.most = std::max(counts.most, ++counts.open);
}

}  // namespace

namespace hanse::pretended {

Recordings& recordings() {
  static auto* const counts = new Recordings;
  return *counts;
}

}  // namespace hanse::pretended

int cudaGetLastError() {
  const std::lock_guard lock(pretended_device().mutex);
  ++hanse::pretended::recordings().errors;
  return 0;
}

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
  TORCH_CHECK(end_allocating(pool.second), "the pool is not recorded to");
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
  allocate_to(pool.second);
  pretended_device().begin_recording(static_cast<int64_t>(pool.second));
  is_open_ = true;
  enter_list();
}

void CUDAGraph::capture_end() {
  const std::lock_guard lock(pretended_device().mutex);
  if (std::exchange(is_open_, false)) --hanse::pretended::recordings().open;
  graph_ = std::make_shared<const hanse::pretended::Graph>(pretended_device().end_recording());
  end_allocating(static_cast<uint64_t>(graph_->pool));
}

void CUDAGraph::replay() {
  const std::lock_guard lock(pretended_device().mutex);
  pretended_device().replay(graph_);
}

CUDAGraph::~CUDAGraph() {
  {
    const std::lock_guard lock(pretended_device().mutex);
    enter_list();
  }
  std::this_thread::yield();
  const std::lock_guard lock(pretended_device().mutex);
  --hanse::pretended::recordings().open;
  if (graph_) pretended_device().release_pool(graph_->pool);
}

}  // namespace at::cuda
