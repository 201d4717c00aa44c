#include "dense_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#define HANSE_LOOPS "dense_loops.inc"
#include "each_family.inc"

namespace hanse {

const DenseKernels& dense_kernels(VectorFamily family) { return HANSE_OF_FAMILY(family, kDense); }

const DenseKernels* own_kernels(int64_t rows) {
  static const bool has_vectors = fastest_family() != VectorFamily::kPlain;
  const bool own = rows <= kFewRows && openblas_get_num_threads() == 1 && has_vectors;
  return own ? &dense_kernels() : nullptr;
}

}  // namespace hanse
