// The GPUs of this host. A build without CUDA has none.
#pragma once

#include <cstdint>
#include <string>

namespace hanse {

// GPUs that this process may use; 0 when there is none, no driver, or no CUDA in this build.
int64_t gpu_count();

// What no two GPUs have in common, e.g. "GPU 3f8a...": MIG slices count as GPUs of their own.
// REQUIRES: 0 <= index < gpu_count().
std::string gpu_identity(int64_t index);
int64_t gpu_memory_bytes(int64_t index);
std::string gpu_name(int64_t index);  // "NVIDIA H100 80GB HBM3, compute capability 9.0"

// Makes the GPU the one of this process, and its results the same from run to run: deterministic
// algorithms, no search for the fastest one, no TF32. Returns LibTorch's name of it, "cuda:0". To
// be called before the first computation on it. Throws NotCompiled in a build without CUDA.
std::string use_gpu(int64_t index);

std::string cuda_version();  // of the runtime, e.g. "13.0"; empty in a build without CUDA

}  // namespace hanse
