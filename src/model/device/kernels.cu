// The kernels: a thread an item. Products and sums are not contracted (-fmad=false).
#include "device/launch.hpp"

namespace hanse {

namespace {

template <class One>
__global__ void each_item(One work, int64_t n) {
  const int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (item < n) work(item);
}

}  // namespace

const char* launch(const Work& work, int64_t n, void* stream) {
  constexpr int64_t kThreads = 256;
  if (n <= 0) return nullptr;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  const auto start = [&](const auto& one) {
    each_item<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(one, n);
  };
  std::visit(start, work);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace hanse
