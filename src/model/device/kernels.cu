// The kernels: a thread an item, or a block of them a block. Products and sums are not contracted
// (-fmad=false).
#include "device/launch.hpp"

namespace hanse {

namespace {

template <class One>
__global__ void each_item(One work, int64_t n) {
  const int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (item < n) work(item);
}

template <class One>
__global__ void __launch_bounds__(One::kThreads) each_block(One work) {
  __shared__ typename One::Scratch scratch;
  for (int phase = 0; phase < work.phases(); ++phase) {
    if (phase > 0) __syncthreads();
    work(phase, blockIdx.x, static_cast<int>(threadIdx.x), scratch);
  }
}

}  // namespace

const char* launch(const Work& work, int64_t n, void* stream) {
  constexpr int64_t kThreads = 256;
  if (n <= 0) return nullptr;
  const auto on = static_cast<cudaStream_t>(stream);
  const auto start = [&]<class One>(const One& one) {
    if constexpr (BlockWork<One>) {
      each_block<<<static_cast<unsigned>(n), One::kThreads, 0, on>>>(one);
    } else {
      const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
      each_item<<<blocks, kThreads, 0, on>>>(one, n);
    }
  };
  std::visit(start, work);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace hanse
