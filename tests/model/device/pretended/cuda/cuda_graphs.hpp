// In the place of LibTorch's CUDA streams, events and graphs, so that graph_recorder.cpp itself
// records on the pretended GPU, and nccl_communicator.cpp works between several. LibTorch's names
// of their headers, and CUDA's, lead here.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <c10/core/Device.h>

#include "model/device/pretended/streams.hpp"

enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
int cudaGetLastError();

extern "C" {
using cudaStream_t = struct CUstream_st*;
enum cudaError_t { cudaSuccess = 0, cudaErrorNotReady = 600 };
cudaError_t cudaStreamQuery(cudaStream_t stream);
const char* cudaGetErrorString(cudaError_t error);
}

namespace hanse::pretended {

// What LibTorch and CUDA keep of recordings, for tests of who makes them.
struct Recordings {
  int open = 0;        // threads that record, or give a graph back
  int most = 0;        // ... at a time
  int allocating = 0;  // pools that the allocator takes memory from
  int errors = 0;      // of CUDA that were taken by who made them
};
Recordings& recordings();

}  // namespace hanse::pretended

namespace c10::cuda {

struct CUDAStream {
  hanse::pretended::Stream* own;
  signed char device_index() const { return static_cast<signed char>(own->ordinal); }
  cudaStream_t stream() const { return nullptr; }
  bool query() const { return true; }  // what NCCL begins has ended, as fake_nccl.cpp does it
};

class CUDAGuard {
 public:
  explicit CUDAGuard(c10::Device device) : scope_(device.index()) {}

 private:
  hanse::pretended::OrdinalScope scope_;
};

CUDAStream getCurrentCUDAStream();
CUDAStream getStreamFromPool();

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream);
  ~CUDAStreamGuard();
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;

 private:
  hanse::pretended::Stream* before_;
};

}  // namespace c10::cuda

namespace c10::cuda::CUDACachingAllocator {

using Pool = std::pair<uint64_t, uint64_t>;
// Throws when nothing is recorded to it.
void endAllocateToPool(int device, Pool pool);
void releasePool(int device, Pool pool);

}  // namespace c10::cuda::CUDACachingAllocator

namespace at::cuda {

class CUDAEvent {
 public:
  void record(const c10::cuda::CUDAStream& stream);
  void block(const c10::cuda::CUDAStream& stream);

 private:
  hanse::pretended::Event event_;
};

using MempoolId_t = std::pair<uint64_t, uint64_t>;
MempoolId_t graph_pool_handle();

class CUDAGraph {
 public:
  CUDAGraph() = default;
  ~CUDAGraph();
  CUDAGraph(const CUDAGraph&) = delete;
  CUDAGraph& operator=(const CUDAGraph&) = delete;
  void capture_begin(MempoolId_t pool, cudaStreamCaptureMode mode);
  void capture_end();
  void replay();

 private:
  std::shared_ptr<const hanse::pretended::Graph> graph_;  // null: none was recorded
  bool is_open_ = false;
};

}  // namespace at::cuda
