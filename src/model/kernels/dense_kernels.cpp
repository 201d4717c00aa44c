#include "dense_kernels.hpp"

#include <algorithm>
#include <cstddef>

#define HANSE_LOOPS "dense_loops.inc"
#include "each_family.inc"

namespace hanse {

const DenseKernels& dense_kernels(VectorFamily family) { return HANSE_OF_FAMILY(family, kDense); }

bool is_streamed(int64_t rows, int64_t out, int64_t in) {
  constexpr int64_t kCachedFloats = 256 << 10;  // 1 MiB
  static const bool has_vectors = fastest_family() != VectorFamily::kPlain;
  return out * in > kCachedFloats && rows <= kStreamedRows && in % 16 == 0 &&
         openblas_get_num_threads() == 1 && has_vectors;
}

}  // namespace hanse
