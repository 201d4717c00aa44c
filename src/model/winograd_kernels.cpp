#include "winograd_kernels.hpp"

#include <cstddef>
#include <utility>

#if defined(__x86_64__)

namespace hanse::avx2 {
#define HANSE_FAMILY HANSE_AVX2
#include "winograd_loops.inc"
#undef HANSE_FAMILY
}  // namespace hanse::avx2

namespace hanse::avx512 {
#define HANSE_FAMILY HANSE_AVX512
#include "winograd_loops.inc"
#undef HANSE_FAMILY
}  // namespace hanse::avx512

#endif

namespace hanse::plain {
#define HANSE_FAMILY
#include "winograd_loops.inc"
#undef HANSE_FAMILY
}  // namespace hanse::plain

namespace hanse {

const WinogradKernels& winograd_kernels(Family family) {
#if defined(__x86_64__)
  if (family == Family::kAvx512) return avx512::kWinograd;
  if (family == Family::kAvx2) return avx2::kWinograd;
#endif
  return plain::kWinograd;
}

}  // namespace hanse
