#include "dense_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#define HANSE_LOOPS "dense_loops.inc"
#include "each_family.inc"

namespace hanse {

const DenseKernels& dense_kernels(VectorFamily family) { return HANSE_OF_FAMILY(family, kDense); }

const DenseKernels* own_kernels(int64_t rows, int64_t out, int64_t in) {
  static const bool has_vectors = fastest_family() != VectorFamily::kPlain;
  const bool own =
      rows <= kFewRows && has_vectors && (is_cached(out, in) || openblas_get_num_threads() == 1);
  return own ? &dense_kernels() : nullptr;
}

}  // namespace hanse
