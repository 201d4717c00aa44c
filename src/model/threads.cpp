#include "hanse/model/threads.hpp"

#include <cblas.h>
#include <malloc.h>

#include "hanse/base/error.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

void set_model_threads(int64_t threads) {
  if (threads < 1) throw InvalidArgument("threads must be 1 or more", "run.threads");
  openblas_set_num_threads(static_cast<int>(threads));
  if (uses_torch()) torch_library().set_threads(threads);
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);   // bytes, the largest value it takes
  mallopt(M_TRIM_THRESHOLD, 512 << 20);  // bytes
#endif
}

std::string kernel_family() {
  const std::string blas = std::string("openblas ") + openblas_get_corename();
  return uses_torch() ? blas + ", " + torch_library().kernels() : blas;
}

}  // namespace hanse
