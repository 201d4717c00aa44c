// A GPU that pretends, for tests: with HANSE_FAKE_GPU=1 the program of a test loads
// hanse-pretended-gpu.so, whose functions gpus(), use_gpu(), run_on_gpu() and make_graph_recorder()
// hanse-torch.so then uses in the place of its own.
//
// It is LibTorch's device "privateuseone:0". What it shows: addresses of the wrong side, tensors of
// two devices in one operator, memory that nobody filled, kernels whose items depend on each other,
// recordings of what CUDA does not record or that keep what changes, pinned memory that is reused
// while a copy is under way, streams that do not wait for each other, and a device that is full.
#pragma once

#include <cstdint>

#include <dlfcn.h>

namespace hanse::pretended {

// Since the process began.
struct Counts {
  int64_t launches = 0;        // kernels and operators, without those of graphs
  int64_t graph_launches = 0;  // graphs
  int64_t graphs = 0;          // recorded
  int64_t uploads = 0, uploaded_bytes = 0;
  int64_t downloads = 0, downloaded_bytes = 0;
  int64_t waits = 0;    // of the host for the device
  int64_t refused = 0;  // what a recording cannot hold, and waits at the wrong time

  // What has come since `before`.
  Counts operator-(const Counts& before) const {
    return {launches - before.launches,
            graph_launches - before.graph_launches,
            graphs - before.graphs,
            uploads - before.uploads,
            uploaded_bytes - before.uploaded_bytes,
            downloads - before.downloads,
            downloaded_bytes - before.downloaded_bytes,
            waits - before.waits,
            refused - before.refused};
  }
};

// What tests ask of it.
struct PretendedGpu {
  Counts (*counts)();
  int64_t (*used_bytes)();
  // Blocks take no more than that; 0: as much as there are addresses.
  void (*set_limit)(int64_t bytes);
  // cudaDeviceSynchronize(): throws while any thread records.
  void (*wait)();
  // The threads that share a kernel's items; 1 at first, or HANSE_FAKE_GPU_THREADS.
  void (*set_threads)(int64_t threads);
};

// Null: this process has none.
inline const PretendedGpu* pretended_gpu() {
  using Entry = const PretendedGpu* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(RTLD_DEFAULT, "hanse_pretended_gpu"));
  return entry != nullptr ? entry() : nullptr;
}

}  // namespace hanse::pretended
