#include "convolution_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include <cblas.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "hanse/base/processor.hpp"

namespace hanse {

namespace {

#define HANSE_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)

namespace avx2 {
#define HANSE_FAMILY __attribute__((target("avx2,fma")))
using Vector = __m256;
constexpr int64_t kLanes = 8;
constexpr int kSums = 12;  // of 16 registers
HANSE_FAMILY HANSE_INLINE Vector load(const float* from) { return _mm256_loadu_ps(from); }
HANSE_FAMILY HANSE_INLINE void store(float* to, Vector v) { _mm256_storeu_ps(to, v); }
HANSE_FAMILY HANSE_INLINE void store_first(float* to, Vector v, int64_t n) {
  float values[kLanes];
  store(values, v);
  for (int64_t i = 0; i < n; ++i) to[i] = values[i];
}
HANSE_FAMILY HANSE_INLINE Vector broadcast(float value) { return _mm256_set1_ps(value); }
HANSE_FAMILY HANSE_INLINE Vector multiply_add(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
HANSE_FAMILY HANSE_INLINE Vector at_least_zero(Vector v) {
  return _mm256_max_ps(_mm256_setzero_ps(), v);
}
HANSE_FAMILY HANSE_INLINE Vector unless_gated(Vector v, Vector gate) {
  return _mm256_and_ps(v, _mm256_cmp_ps(gate, _mm256_setzero_ps(), _CMP_NLE_UQ));
}
#include "convolution_loops.inc"
#undef HANSE_FAMILY
constexpr ConvolutionKernels kKernels{"AVX2", convolve, add_weight_gradient, pool, unpool};
}  // namespace avx2

namespace avx512 {
#define HANSE_FAMILY HANSE_AVX512
using Vector = __m512;
constexpr int64_t kLanes = 16;
constexpr int kSums = 24;  // of 32 registers
HANSE_FAMILY HANSE_INLINE Vector load(const float* from) { return _mm512_loadu_ps(from); }
HANSE_FAMILY HANSE_INLINE void store(float* to, Vector v) { _mm512_storeu_ps(to, v); }
HANSE_FAMILY HANSE_INLINE void store_first(float* to, Vector v, int64_t n) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << n) - 1U), v);
}
HANSE_FAMILY HANSE_INLINE Vector broadcast(float value) { return _mm512_set1_ps(value); }
HANSE_FAMILY HANSE_INLINE Vector multiply_add(Vector a, Vector b, Vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
HANSE_FAMILY HANSE_INLINE Vector at_least_zero(Vector v) {
  return _mm512_maskz_max_ps(0xffff, _mm512_setzero_ps(), v);  // the second where one is NaN
}
HANSE_FAMILY HANSE_INLINE Vector unless_gated(Vector v, Vector gate) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gate, _mm512_setzero_ps(), _CMP_NLE_UQ), v);
}
#include "convolution_loops.inc"
#undef HANSE_FAMILY
// Few channels fill half a vector better.
bool are_few(const Convolution& c) { return c.outputs <= avx2::kLanes; }
void convolve_any(const Convolution& c, ConstImage x, const float* w, Image y,
                  const Finish& finish) {
  return (are_few(c) ? avx2::convolve : convolve)(c, x, w, y, finish);
}
void add_any_gradient(const Convolution& c, ConstImage x, ConstImage d, float* gradient) {
  return (are_few(c) ? avx2::add_weight_gradient : add_weight_gradient)(c, x, d, gradient);
}
constexpr ConvolutionKernels kKernels{"AVX-512", convolve_any, add_any_gradient, pool, unpool};
}  // namespace avx512

#endif

// For other processors, and to compare with.
namespace plain {
#define HANSE_FAMILY
constexpr int64_t kLanes = 4;
constexpr int kSums = 12;
using Vector = float __attribute__((vector_size(16)));
HANSE_INLINE Vector load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
HANSE_INLINE void store_first(float* to, Vector v, int64_t n) {
  std::memcpy(to, &v, static_cast<std::size_t>(n) * sizeof(float));
}
HANSE_INLINE void store(float* to, Vector v) { store_first(to, v, kLanes); }
HANSE_INLINE Vector broadcast(float value) { return Vector{} + value; }
HANSE_INLINE Vector multiply_add(Vector a, Vector b, Vector c) {
  for (int64_t i = 0; i < kLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
HANSE_INLINE Vector at_least_zero(Vector v) { return v < 0 ? Vector{} : v; }
HANSE_INLINE Vector unless_gated(Vector v, Vector gate) { return gate <= 0 ? Vector{} : v; }
#include "convolution_loops.inc"
#undef HANSE_FAMILY
constexpr ConvolutionKernels kKernels{"plain", convolve, add_weight_gradient, pool, unpool};
}  // namespace plain

#undef HANSE_INLINE

}  // namespace

std::vector<const ConvolutionKernels*> all_convolution_kernels() {
  std::vector<const ConvolutionKernels*> found;
#if defined(__x86_64__)
  if (has_avx512()) found.push_back(&avx512::kKernels);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.push_back(&avx2::kKernels);
  }
#endif
  found.push_back(&plain::kKernels);
  return found;
}

const ConvolutionKernels& convolution_kernels() {
  static const ConvolutionKernels& chosen = [&]() -> const ConvolutionKernels& {
    const auto all = all_convolution_kernels();
    const bool haswell = std::string_view(openblas_get_corename()) == "Haswell";
    const bool first_is_avx512 = std::string_view(all.front()->name) == "AVX-512";
    return *all[haswell && first_is_avx512 && all.size() > 1 ? 1 : 0];
  }();
  return chosen;
}

}  // namespace hanse
