#include "hanse/model/threads.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include <cblas.h>
#include <fmt/format.h>
#include <malloc.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/subnormals.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/options.hpp"
#include "hanse/model/torch_library.hpp"
#include "kernels/bfloat16_kernels.hpp"
#include "kernels/layer_kernels.hpp"
#include "makers.hpp"

namespace hanse {

namespace {

// OpenBLAS copies the operands of a product into memory of its own, of which a page exists once it
// was written, and its kernels prefetch behind the copies. Where no page is, every prefetch looks
// for one in vain, and a product takes up to 3 times as long, until a larger one came (measured on
// Zen). This one is larger than most and takes 2 ms.
void write_product_memory() {
  constexpr int64_t kRows = 128, kColumns = 512, kSums = 384;
  const std::vector<float> a(kRows * kSums), b(kSums * kColumns);
  std::vector<float> c(kRows * kColumns);
  multiply(kRows, kColumns, kSums, 1, {a.data(), kSums}, {b.data(), kColumns}, 0, c.data(),
           kColumns);
}

// OpenBLAS maps so much of each thread's on its first product: BUFFER_SIZE, which is what its
// builds for several processors have on x86-64 and AArch64.
constexpr int64_t kProductBytes = int64_t{128} << 20;
constexpr int64_t kRestBytes = int64_t{16} << 20;  // what else the start takes

}  // namespace

void require_model_threads(int64_t threads) {
  static int64_t given = 0;  // repeats come here again
  if (threads <= given) return;
  // OpenBLAS and LibTorch have threads of their own.
  const int64_t bytes = (threads - given) * kProductBytes + kRestBytes;
  require_threads(2 * (threads - 1), {bytes, "which products of matrices take"}, "run.threads");
  given = threads;
}

void set_model_threads(int64_t threads) {
  if (threads < 1) throw InvalidArgument("threads must be 1 or more", "run.threads");
  const FlushSubnormals flush;  // inherited by the threads that start here
  openblas_set_num_threads(static_cast<int>(threads));
  if (uses_torch()) torch_library().set_threads(threads);
  keep_freed_memory(true);
  static std::once_flag written;  // repeats come here again
  std::call_once(written, write_product_memory);
}

void keep_freed_memory([[maybe_unused]] bool keep) {
#ifdef __GLIBC__
  // Bytes: the largest value that the first takes, and a few pages of vectors.
  mallopt(M_MMAP_THRESHOLD, keep ? 32 << 20 : 1 << 20);
  mallopt(M_TRIM_THRESHOLD, keep ? 512 << 20 : 1 << 20);
#endif
}

void check_kernels() {
  const char* const wanted = std::getenv("HANSE_KERNELS");
  if (!wanted) return;
  std::vector<std::string> values;
  for (const ProductFamily family : product_families()) values.emplace_back(kernels_value(family));
  if (std::ranges::count(values, wanted) > 0) return;
  throw InvalidArgument(fmt::format("'{}' is no family of kernels that this processor has", wanted),
                        "HANSE_KERNELS", "it has " + join(values, ", "));
}

std::string kernel_family() {
  const std::string blas = std::string("openblas ") + openblas_get_corename();
  return uses_torch() ? blas + ", " + torch_library().kernels() : blas;
}

std::string product_kernels(const ModelOptions& options, bool on_gpu) {
  const bool narrow = options.precision == Precision::kBfloat16;
  if (on_gpu && options.precision != Precision::kFloat32) {
    return "tensor cores, by cuBLAS and cuDNN";
  }
  if (!narrow) return "";
  if (rounds_factors(options.kind)) return "LibTorch in float32, of rounded factors";
  return name_of(fastest_product_family());
}

std::string products_text(const ModelOptions& options, bool on_gpu) {
  const std::string by = product_kernels(options, on_gpu);
  if (by.empty()) return "";
  const std::string text = fmt::format("products in {} by {}", name_of(options.precision), by);
  if (on_gpu) return text + ": another kind of GPU, or a CPU, has other bits";
  return by == "AMX" ? text : text + ", no faster than float32: AMX is not used";
}

}  // namespace hanse
