#include <algorithm>
#include <cstdlib>
#include <string>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "device/device.hpp"
#include "device/kernels.hpp"
#include "device/launch.hpp"
#include "hanse/base/error.hpp"
#include "narrow/bfloat16_product.hpp"

namespace hanse {

namespace {

// Another one has other sums.
constexpr const char* kWorkspaceKey = "CUBLAS_WORKSPACE_CONFIG";
constexpr const char* kWorkspace = ":4096:8";

cudaDeviceProp properties(int64_t index) {
  cudaDeviceProp found{};
  const cudaError_t code = cudaGetDeviceProperties(&found, static_cast<int>(index));
  if (code == cudaSuccess) return found;
  throw InvalidArgument(fmt::format("GPU {} does not answer: {}", index, cudaGetErrorString(code)),
                        "run.device", "nvidia-smi shows its state; run.device = cpu needs none");
}

[[noreturn]] void refuse_gpu(const std::string& why) {
  throw InvalidArgument("the GPU cannot be used: " + why, "run.device",
                        "nvidia-smi shows its state; run.device = cpu needs none");
}

// What kernels.cu says of a kernel that does not start.
class KernelError : public Error {
 public:
  using Error::Error;
};

// `images`: ones [2, 3, 8, 8].
void try_bfloat16(const at::Tensor& images) {
  const at::Tensor factor = images[0].to(at::kBFloat16);
  at::Tensor product = at::zeros({3, 8, 8}, images.options());
  multiply_bfloat16_on_gpu(product, factor, factor.transpose(1, 2));
  if (product.eq(8).all().item<bool>()) return;
  throw InvalidArgument("the GPU computes nonsense in bfloat16", "model.precision", "use float32");
}

// GPUs have these products since Ampere.
void require_precision(int64_t index, Precision precision) {
  constexpr int kAmpere = 8;
  const cudaDeviceProp gpu = properties(index);
  if (precision == Precision::kFloat32 || gpu.major >= kAmpere) return;
  throw InvalidArgument(fmt::format("{} has compute capability {}.{}, and products in {} need {}.0",
                                    gpu.name, gpu.major, gpu.minor,
                                    precision == Precision::kTf32 ? "tf32" : "bfloat16", kAmpere),
                        "model.precision", "use float32");
}

// Sums of products are float32 ones in every precision.
void choose_precision(at::Context& context, Precision precision) {
  context.setAllowTF32CuBLAS(precision == Precision::kTf32);
  context.setAllowTF32CuDNN(precision != Precision::kFloat32);  // exact for bfloat16 numbers
#if TORCH_VERSION_MAJOR >= 2
  context.setAllowBF16ReductionCuBLAS(false);
#endif
}

// Copies what has no row or column in one piece.
at::Tensor in_pieces(const at::Tensor& factor) {
  const bool has_rows = factor.stride(2) == 1 || factor.size(2) == 1;
  return has_rows || is_turned(factor) ? factor : factor.contiguous();
}

// One kernel of each library that training calls, and one of ours: a GPU that another process holds
// for itself, that is full, or that this build has no kernels for, is found here and not in the
// first round.
void try_gpu(const std::string& device, Precision precision) {
  try {
    const auto on = at::TensorOptions(at::kFloat).device(at::Device(device));
    const at::Tensor images = at::ones({2, 3, 8, 8}, on);
    const at::Tensor products = at::bmm(images[0], images[1]);
    if (precision == Precision::kBfloat16) try_bfloat16(images);
    const at::Tensor sums = at::conv2d(images, at::ones({4, 3, 3, 3}, on)).sum() + products.sum();
    const at::Tensor own = at::ones({2}, on.dtype(at::kDouble)), sum = at::zeros_like(own);
    run(SumWork{own.data_ptr<double>(), sum.data_ptr<double>(), 2, 1}, 1, own.device());
    if (sums.item<float>() > 0 && sum[0].item<double>() == 2) return;
    throw InvalidArgument("the GPU computes nonsense", "run.device", "another GPU");
  } catch (const c10::Error& error) {
    refuse_gpu(error.what_without_backtrace());
  } catch (const KernelError& error) {
    refuse_gpu(error.what());
  }
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
    found.push_back({.identity = identity,
                     .name = fmt::format("{}, compute capability {}.{}, {} multiprocessors",
                                         gpu.name, gpu.major, gpu.minor, gpu.multiProcessorCount),
                     .memory_bytes = static_cast<int64_t>(gpu.totalGlobalMem)});
  }
  return found;
}

void run_on_gpu(const Work& work, int64_t n) {
  const char* wrong = launch(work, n, c10::cuda::getCurrentCUDAStream().stream());
  if (wrong != nullptr) throw KernelError(fmt::format("a kernel does not start: {}", wrong));
}

void multiply_bfloat16_on_gpu(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = in_pieces(a), right = in_pieces(b);
  const BlasMatrices first = blas_matrices(left), second = blas_matrices(right),
                     result = blas_matrices(out);
  const float one = 1, zero = 0;
  const auto size = [](int64_t n) { return static_cast<int>(n); };
  const auto turn = [](const BlasMatrices& m) { return m.turned ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // Column by column: out^T = b^T a^T.
  const cublasStatus_t code = cublasGemmStridedBatchedEx(
      at::cuda::getCurrentCUDABlasHandle(), turn(second), turn(first), size(out.size(2)),
      size(out.size(1)), size(a.size(2)), &one, right.data_ptr(), CUDA_R_16BF, size(second.step),
      second.stride, left.data_ptr(), CUDA_R_16BF, size(first.step), first.stride, &zero,
      out.data_ptr(), CUDA_R_32F, size(result.step), result.stride, size(out.size(0)),
      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw KernelError(
      fmt::format("a product in bfloat16 does not start: {}", cublasGetStatusString(code)));
}

std::string use_gpu(int64_t index, Precision precision) {
  require_precision(index, precision);
  setenv(kWorkspaceKey, kWorkspace, 0);  // without it cuBLAS sums in any order
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // whoever reads it would be wrong anyway
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  choose_precision(context, precision);
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  const std::string device = fmt::format("cuda:{}", index);
  try_gpu(device, precision);
  return device;
}

int64_t free_bytes() {
  std::size_t free = 0, all = 0;
  return cudaMemGetInfo(&free, &all) == cudaSuccess ? static_cast<int64_t>(free) : 0;
}

std::string cuda_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "unknown";
  const char* workspace = std::getenv(kWorkspaceKey);
  const bool is_usual = workspace == nullptr || std::string(workspace) == kWorkspace;
  return fmt::format("{}.{}, cuDNN {}{}", version / 1000, version % 1000 / 10,
                     at::detail::getCUDAHooks().versionCuDNN(),
                     is_usual ? "" : fmt::format(", {} {}", kWorkspaceKey, workspace));
}

}  // namespace hanse
