#include "convolution_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#define HANSE_LOOPS "convolution_loops.inc"
#include "each_family.inc"

#if defined(__x86_64__)

namespace hanse::avx512 {

// Few channels fill half a vector better.
inline bool are_few(const Convolution& c) { return c.outputs <= avx2::kLanes; }
inline void convolve_any(const Convolution& c, ConstImage x, const float* w, Image y,
                         const Finish& finish) {
  return (are_few(c) ? avx2::convolve : convolve)(c, x, w, y, finish);
}
inline void add_any_gradient(const Convolution& c, ConstImage x, ConstImage d, float* gradient) {
  return (are_few(c) ? avx2::add_weight_gradient : add_weight_gradient)(c, x, d, gradient);
}
constexpr ConvolutionKernels kAnyConvolution{convolve_any, add_any_gradient, pool, unpool};

}  // namespace hanse::avx512

#endif

namespace hanse {

const ConvolutionKernels& convolution_kernels(VectorFamily family) {
#if defined(__x86_64__)
  if (family == VectorFamily::kAvx512) return avx512::kAnyConvolution;
#endif
  return HANSE_OF_FAMILY(family, kConvolution);
}

}  // namespace hanse
