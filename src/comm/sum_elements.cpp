#include <algorithm>
#include <type_traits>

#include "hanse/comm/element.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "hanse/base/processor.hpp"
#include "hanse/base/wrapping.hpp"

namespace hanse {

namespace {

template <class T>
inline __attribute__((always_inline)) void add_loop(const T* __restrict row, int64_t count,
                                                    T* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, int64_t>) {
      sum[i] = wrapping_sum(sum[i], row[i]);
    } else {
      sum[i] += row[i];
    }
  }
}

inline __attribute__((always_inline)) void take_loop(const int64_t* __restrict sum, int64_t count,
                                                     double unit, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(static_cast<double>(sum[i]) * unit);
  }
}

void take_plain(const int64_t* sum, int64_t count, double unit, float* out) {
  take_loop(sum, count, unit, out);
}

#if defined(__x86_64__)
// An integer v of 64 bits is 2^32 h + l, h signed. Its halves, written into the low bits of 2^84 +
// 2^63 and of 2^52, make 2^84 + 2^63 + 2^32 h and 2^52 + l. Subtracting the constants, which is
// exact, and adding both rounds once, as the processor's own conversion does.
HANSE_AVX2 void take_avx2(const int64_t* sum, int64_t count, double unit, float* out) {
  const __m256i high_bits = _mm256_castpd_si256(_mm256_set1_pd(0x1p84 + 0x1p63));
  const __m256i low_bits = _mm256_castpd_si256(_mm256_set1_pd(0x1p52));
  const __m256d excess = _mm256_set1_pd(0x1p84 + 0x1p63 + 0x1p52);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sum + i));
    const __m256i high = _mm256_xor_si256(_mm256_srli_epi64(v, 32), high_bits);
    const __m256i low = _mm256_blend_epi32(low_bits, v, 0b01010101);
    const __m256d value =
        _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), excess), _mm256_castsi256_pd(low));
    _mm_storeu_ps(out + i, _mm256_cvtpd_ps(_mm256_mul_pd(value, _mm256_set1_pd(unit))));
  }
  take_loop(sum + i, count - i, unit, out + i);
}

// AVX-512 has an instruction for integers of 64 bits.
HANSE_AVX512 void take_avx512(const int64_t* sum, int64_t count, double unit, float* out) {
  take_loop(sum, count, unit, out);
}
#endif

auto best_take() {
#if defined(__x86_64__)
  if (has_avx512()) return take_avx512;
  if (has_avx2()) return take_avx2;
#endif
  return take_plain;
}

}  // namespace

void add_elements(ElementType type, const std::byte* row, int64_t count, std::byte* sum) {
  if (type == ElementType::kInt64) {
    add_loop(reinterpret_cast<const int64_t*>(row), count, reinterpret_cast<int64_t*>(sum));
  } else {
    add_loop(reinterpret_cast<const float*>(row), count, reinterpret_cast<float*>(sum));
  }
}

void take_elements(ElementType type, const std::byte* sum, int64_t count, double unit, float* out) {
  static const auto take = best_take();
  if (type == ElementType::kInt64) {
    take(reinterpret_cast<const int64_t*>(sum), count, unit, out);
  } else {
    std::copy_n(reinterpret_cast<const float*>(sum), count, out);
  }
}

}  // namespace hanse
