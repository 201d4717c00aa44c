// In the place of LibTorch's CUDA graphs, events and streams: notes what is asked of them. Nothing
// of it waits for the device, which whoever records another graph could not bear.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hanse::fake {

// The calls of this thread: "record main", "block aside". Its first stream is the main one.
inline std::vector<std::string>& calls() {
  static thread_local std::vector<std::string> list;
  return list;
}

// All threads count here.
struct Captures {
  int open = 0;        // graphs that are recorded now
  int most = 0;        // at a time
  int allocating = 0;  // of which the allocator believes so
  int pools = 0;       // of memory that are kept for a graph, each as often as there are graphs
  std::map<uint64_t, int> of_pool = {};  // graphs
  uint64_t pool_names = 0;
};
Captures& captures();

// What happens to this thread's next recording.
struct Faults {
  bool at_begin = false, at_end = false;
};
inline Faults& faults() {
  static thread_local Faults of_thread;
  return of_thread;
}

inline int& current_stream() {
  static thread_local int id = 0;
  return id;
}

inline std::string name_of(int stream) { return stream == 0 ? "main" : "aside"; }

}  // namespace hanse::fake

enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
int cudaGetLastError();

namespace c10::cuda {

struct CUDAStream {
  int id;
  int device_index() const { return 0; }
};

inline CUDAStream getCurrentCUDAStream() { return {hanse::fake::current_stream()}; }
inline CUDAStream getStreamFromPool() { return {1}; }

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream)
      : before_(std::exchange(hanse::fake::current_stream(), stream.id)) {}
  ~CUDAStreamGuard() { hanse::fake::current_stream() = before_; }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;

 private:
  int before_;
};

}  // namespace c10::cuda

namespace c10::cuda::CUDACachingAllocator {

using Pool = std::pair<uint64_t, uint64_t>;
void endAllocateToPool(int device, Pool pool);
void releasePool(int device, Pool pool);

}  // namespace c10::cuda::CUDACachingAllocator

namespace at::cuda {

struct CUDAEvent {
  void record(const c10::cuda::CUDAStream& stream) const {
    hanse::fake::calls().push_back("record " + hanse::fake::name_of(stream.id));
  }
  void block(const c10::cuda::CUDAStream& stream) const {
    hanse::fake::calls().push_back("block " + hanse::fake::name_of(stream.id));
  }
};

std::pair<uint64_t, uint64_t> graph_pool_handle();

class CUDAGraph {
 public:
  CUDAGraph() = default;
  ~CUDAGraph();
  CUDAGraph(const CUDAGraph&) = delete;
  CUDAGraph& operator=(const CUDAGraph&) = delete;
  void capture_begin(std::pair<uint64_t, uint64_t> pool, cudaStreamCaptureMode mode);
  void capture_end();
  void replay() const { hanse::fake::calls().push_back("replay"); }

 private:
  bool is_open_ = false, has_pool_ = false;
  uint64_t pool_ = 0;
};

}  // namespace at::cuda
