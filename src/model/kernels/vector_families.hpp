// What vector kernels are written with, once for each family of processors: namespaces avx2, avx512
// and plain have a Vector of kLanes floats, what loads, stores and computes it, and kSums, the sums
// that fit into its registers beside the factors. A kernel's loops stand in a file of their own,
// which each_family.inc includes inside each of these namespaces; HANSE_FAMILY stands before every
// function of it.
//
// Each operation rounds once, so that loops which add in one order have the same bits in all
// families.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "hanse/base/processor.hpp"

#define HANSE_INLINE inline __attribute__((always_inline))

// What has this name in the family's namespace.
#if defined(__x86_64__)
#define HANSE_OF_FAMILY(family, name)               \
  ((family) == VectorFamily::kAvx512 ? avx512::name \
   : (family) == VectorFamily::kAvx2 ? avx2::name   \
                                     : plain::name)
#else
#define HANSE_OF_FAMILY(family, name) plain::name
#endif

namespace hanse {

enum class VectorFamily { kPlain, kAvx2, kAvx512 };

// The families that this processor can run, the fastest first.
std::vector<VectorFamily> families();

// The first of families(), but AVX2 with HANSE_KERNELS=Haswell.
VectorFamily fastest_family();

const char* name_of(VectorFamily family);  // "AVX-512"

#if defined(__x86_64__)

namespace avx2 {
#define HANSE_FAMILY HANSE_AVX2
using Vector = __m256;
constexpr int64_t kLanes = 8;
constexpr int kSums = 12;  // of 16 registers
HANSE_FAMILY HANSE_INLINE Vector load(const float* from) { return _mm256_loadu_ps(from); }
HANSE_FAMILY HANSE_INLINE Vector load_first(const float* from, int64_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps(from,
                            _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lanes));
}
HANSE_FAMILY HANSE_INLINE void store(float* to, Vector v) { _mm256_storeu_ps(to, v); }
// Stores by 4, 2 and 1: a masked store takes tens of operations on many processors without AVX-512.
HANSE_FAMILY HANSE_INLINE void store_first(float* to, Vector v, int64_t n) {
  __m128 rest = _mm256_castps256_ps128(v);
  if ((n & 4) != 0) {
    _mm_storeu_ps(to, rest);
    rest = _mm256_extractf128_ps(v, 1);
    to += 4;
  }
  if ((n & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), rest);
    rest = _mm_movehl_ps(rest, rest);
    to += 2;
  }
  if ((n & 1) != 0) _mm_store_ss(to, rest);
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
#include "vector_functions.inc"
// A bit for each lane that is set.
HANSE_FAMILY HANSE_INLINE uint32_t set_lanes(Ints lanes) {
  return static_cast<uint32_t>(_mm256_movemask_ps(__builtin_bit_cast(Vector, lanes)));
}
#include "vector_tiles.inc"
#undef HANSE_FAMILY
}  // namespace avx2

namespace avx512 {
#define HANSE_FAMILY HANSE_AVX512
using Vector = __m512;
constexpr int64_t kLanes = 16;
constexpr int kSums = 24;  // of 32 registers
HANSE_FAMILY HANSE_INLINE Vector load(const float* from) { return _mm512_loadu_ps(from); }
HANSE_FAMILY HANSE_INLINE Vector load_first(const float* from, int64_t n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1U), from);
}
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
#include "vector_functions.inc"
HANSE_FAMILY HANSE_INLINE uint32_t set_lanes(Ints lanes) {
  return _mm512_movepi32_mask(__builtin_bit_cast(__m512i, lanes));
}
#include "vector_tiles.inc"
#undef HANSE_FAMILY
}  // namespace avx512

#endif

// The plain family serves other processors and comparisons.
namespace plain {
#define HANSE_FAMILY
constexpr int64_t kLanes = 4;
constexpr int kSums = 12;
using Vector = float __attribute__((vector_size(16)));
HANSE_INLINE Vector load_first(const float* from, int64_t n) {
  Vector v{};
  std::memcpy(&v, from, static_cast<std::size_t>(n) * sizeof(float));
  return v;
}
HANSE_INLINE Vector load(const float* from) { return load_first(from, kLanes); }
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
#include "vector_functions.inc"
HANSE_INLINE uint32_t set_lanes(Ints lanes) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < kLanes; ++i) bits |= (lanes[i] != 0 ? 1U : 0U) << i;
  return bits;
}
#include "vector_tiles.inc"
#undef HANSE_FAMILY
}  // namespace plain

}  // namespace hanse
