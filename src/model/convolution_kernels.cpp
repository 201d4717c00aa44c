#include "convolution_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#if defined(__x86_64__)

namespace hanse::avx2 {
#define HANSE_FAMILY HANSE_AVX2
#include "convolution_loops.inc"
#undef HANSE_FAMILY
constexpr ConvolutionKernels kConvolution{convolve, add_weight_gradient, pool, unpool};
}  // namespace hanse::avx2

namespace hanse::avx512 {
#define HANSE_FAMILY HANSE_AVX512
#include "convolution_loops.inc"
#undef HANSE_FAMILY
// Few channels fill half a vector better.
inline bool are_few(const Convolution& c) { return c.outputs <= avx2::kLanes; }
inline void convolve_any(const Convolution& c, ConstImage x, const float* w, Image y,
                         const Finish& finish) {
  return (are_few(c) ? avx2::convolve : convolve)(c, x, w, y, finish);
}
inline void add_any_gradient(const Convolution& c, ConstImage x, ConstImage d, float* gradient) {
  return (are_few(c) ? avx2::add_weight_gradient : add_weight_gradient)(c, x, d, gradient);
}
constexpr ConvolutionKernels kConvolution{convolve_any, add_any_gradient, pool, unpool};
}  // namespace hanse::avx512

#endif

namespace hanse::plain {
#define HANSE_FAMILY
#include "convolution_loops.inc"
#undef HANSE_FAMILY
constexpr ConvolutionKernels kConvolution{convolve, add_weight_gradient, pool, unpool};
}  // namespace hanse::plain

namespace hanse {

const ConvolutionKernels& convolution_kernels(Family family) {
#if defined(__x86_64__)
  if (family == Family::kAvx512) return avx512::kConvolution;
  if (family == Family::kAvx2) return avx2::kConvolution;
#endif
  return plain::kConvolution;
}

}  // namespace hanse
