#include <cstdlib>

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/model/device.hpp"

namespace hanse {

namespace {

cudaDeviceProp properties(int64_t index) {
  cudaDeviceProp found{};
  const cudaError_t code = cudaGetDeviceProperties(&found, static_cast<int>(index));
  if (code == cudaSuccess) return found;
  throw InvalidArgument(fmt::format("GPU {} does not answer: {}", index, cudaGetErrorString(code)),
                        "run.device", "nvidia-smi shows its state; run.device = cpu needs none");
}

}  // namespace

int64_t gpu_count() { return c10::cuda::device_count(); }

std::string gpu_identity(int64_t index) {
  const cudaDeviceProp found = properties(index);
  std::string text = "GPU ";
  for (const char byte : found.uuid.bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

int64_t gpu_memory_bytes(int64_t index) {
  return static_cast<int64_t>(properties(index).totalGlobalMem);
}

std::string gpu_name(int64_t index) {
  const cudaDeviceProp found = properties(index);
  return fmt::format("{}, compute capability {}.{}", found.name, found.major, found.minor);
}

std::string use_gpu(int64_t index) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // without it cuBLAS sums in any order
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  return fmt::format("cuda:{}", index);
}

std::string cuda_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "unknown";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace hanse
