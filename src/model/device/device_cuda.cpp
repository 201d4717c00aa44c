#include <cstdlib>

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "device/device.hpp"
#include "hanse/base/error.hpp"

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

std::vector<Gpu> gpus() {
  std::vector<Gpu> found;
  for (int64_t index = 0; index < c10::cuda::device_count(); ++index) {
    const cudaDeviceProp gpu = properties(index);
    std::string identity = "GPU ";
    for (const char byte : gpu.uuid.bytes) {
      identity += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    }
    found.push_back(
        {.identity = identity,
         .name = fmt::format("{}, compute capability {}.{}", gpu.name, gpu.major, gpu.minor),
         .memory_bytes = static_cast<int64_t>(gpu.totalGlobalMem)});
  }
  return found;
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
