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

namespace {

using Value = PooledWork::Value;

// Values that become a list, and the distances of their patches in x.
struct Listed {
  const PooledGradient& d;
  int64_t outputs;
  int32_t pixel, row;
};

// The two lists of a pooled row of an output: the upper row of y and the lower one. Without a
// branch, which a processor could not foretell: a value that does not count is written over.
__attribute__((noinline)) void list_row(const Listed& of, const float* delta, const int32_t* which,
                                        int32_t at, Value*& upper, Value*& lower) {
  // By the place of a value; zeros have 4 more.
  static constexpr std::array<int64_t, 8> kUpper{1, 1}, kLower{0, 0, 1, 1};
  Value *up = upper, *low = lower;
  const int32_t pixel = of.pixel, row = of.row;
  const int64_t outputs = of.outputs;
  for (const int32_t* const end = which + of.d.width * outputs; which < end;) {
    const auto bits = std::bit_cast<uint32_t>(*delta);
    const std::size_t step = static_cast<uint32_t>(*which) | (bits << 1 == 0 ? 4U : 0U);
    const int32_t here = at + (-(*which & 1) & pixel);
    *up = {here, bits};
    *low = {here + row, bits};
    up += kUpper[step];
    low += kLower[step];
    at += 2 * pixel;
    delta += outputs;
    which += outputs;
  }
  upper = up;
  lower = low;
}

// Lists the values of an output in rows [first, end) of y, and returns the end of the list; `below`
// has room for a row.
Value* list_values(const Listed& of, int64_t o, int64_t first, int64_t end, Value* to,
                   Value* below) {
  const PooledGradient& d = of.d;
  for (int64_t pooled = first / 2; pooled < std::min((end + 1) / 2, d.height); ++pooled) {
    const int64_t from = pooled * d.width * of.outputs + o;
    Value *upper = to, *lower = below;
    list_row(of, d.d + from, d.which + from, static_cast<int32_t>(2 * pooled) * of.row, upper,
             lower);
    if (2 * pooled >= first) to = upper;
    if (2 * pooled + 1 < end) to = std::copy(below, lower, to);
  }
  return to;
}

}  // namespace

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
constexpr ConvolutionKernels kAnyConvolution{convolve_any, add_any_gradient,    pool,
                                             unpool,       add_pooled_gradient, take_back_pooled};

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
