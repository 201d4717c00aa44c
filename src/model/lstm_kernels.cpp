#include "lstm_kernels.hpp"

#if defined(__x86_64__)

namespace hanse::avx2 {
#define HANSE_FAMILY HANSE_AVX2
#include "lstm_loops.inc"
#undef HANSE_FAMILY
constexpr LstmKernels kLstm{advance, retreat};
}  // namespace hanse::avx2

namespace hanse::avx512 {
#define HANSE_FAMILY HANSE_AVX512
#include "lstm_loops.inc"
#undef HANSE_FAMILY
constexpr LstmKernels kLstm{advance, retreat};
}  // namespace hanse::avx512

#endif

namespace hanse::plain {
#define HANSE_FAMILY
#include "lstm_loops.inc"
#undef HANSE_FAMILY
constexpr LstmKernels kLstm{advance, retreat};
}  // namespace hanse::plain

namespace hanse {

const LstmKernels& lstm_kernels(Family family) {
#if defined(__x86_64__)
  if (family == Family::kAvx512) return avx512::kLstm;
  if (family == Family::kAvx2) return avx2::kLstm;
#endif
  return plain::kLstm;
}

}  // namespace hanse
