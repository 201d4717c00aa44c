#include "convolution_kernels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

#include "hanse/base/index.hpp"
#include "layer_kernels.hpp"

namespace hanse {

// Rows of a gradient d of y that one sum takes: its floats are read from the second cache again and
// again.
static int64_t rows_of_block(int64_t floats_of_row) {
  return std::max<int64_t>(1, (32 << 10) / floats_of_row);
}

}  // namespace hanse

#define HANSE_LOOPS "pooled_loops.inc"
#include "each_family.inc"
#define HANSE_LOOPS "convolution_loops.inc"
#include "each_family.inc"

#if defined(__x86_64__)

namespace hanse::avx512 {

#define HANSE_FAMILY HANSE_AVX512
#include "few_outputs.inc"
#undef HANSE_FAMILY

// Few channels fill half a vector better.
inline bool are_few(const Convolution& c) { return c.outputs <= avx2::kLanes; }
inline void convolve_any(const Convolution& c, ConstImage x, const float* w, Image y,
                         const Finish& finish) {
  if (fills_pixels(c, finish)) return convolve_few(c, x, w, y, finish);
  return (are_few(c) ? avx2::convolve : convolve)(c, x, w, y, finish);
}
inline void add_any_gradient(const Convolution& c, ConstImage x, ConstImage d, float* gradient) {
  return (are_few(c) ? avx2::add_weight_gradient : add_weight_gradient)(c, x, d, gradient);
}
constexpr ConvolutionKernels kAnyConvolution{convolve_any,    add_any_gradient, pool,
                                             unpool,          are_finite,       add_pooled_gradient,
                                             take_back_pooled};

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
