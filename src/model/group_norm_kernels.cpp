#include "group_norm_kernels.hpp"

#if defined(__x86_64__)

namespace hanse::avx2 {
#define HANSE_FAMILY HANSE_AVX2
#include "group_norm_loops.inc"
#undef HANSE_FAMILY
}  // namespace hanse::avx2

namespace hanse::avx512 {
#define HANSE_FAMILY HANSE_AVX512
#include "group_norm_loops.inc"
#undef HANSE_FAMILY
}  // namespace hanse::avx512

#endif

namespace hanse::plain {
#define HANSE_FAMILY
#include "group_norm_loops.inc"
#undef HANSE_FAMILY
}  // namespace hanse::plain

namespace hanse {

const GroupNormKernels& group_norm_kernels(Family family) {
#if defined(__x86_64__)
  if (family == Family::kAvx512) return avx512::kGroupNorm;
  if (family == Family::kAvx2) return avx2::kGroupNorm;
#endif
  return plain::kGroupNorm;
}

}  // namespace hanse
