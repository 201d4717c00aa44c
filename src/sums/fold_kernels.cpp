#include "fold_kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "hanse/base/processor.hpp"
#include "hanse/sums/fold_entry.hpp"

namespace hanse {

FoldSums fold_plain(float* row, const float* theta, int64_t* fixed, std::size_t n, double scale,
                    double limit) {
  FoldSums sums;
  for (std::size_t i = 0; i < n; ++i) {
    const float origin = theta != nullptr ? theta[i] : 0;
    const ExactEntry entry = exact_entry(row[i], origin, scale, limit);
    sums.squared[i % FoldSums::kLanes] += entry.delta * entry.delta;
    sums.in_range = sums.in_range && entry.fits;
    fixed[i] += entry.addend;
    if (theta != nullptr) row[i] = theta[i];
  }
  return sums;
}

namespace {

#if defined(__x86_64__)

// Eight entries of which `used` count; the lanes are those of fold_plain.
template <bool kTheta>
HANSE_AVX512 inline __attribute__((always_inline)) void fold_eight(float* row, const float* theta,
                                                                   int64_t* fixed, __mmask8 used,
                                                                   __m512d scale, __m512d limit,
                                                                   __m512d& squared,
                                                                   __mmask8& fitted) {
  const __m256 base = kTheta ? _mm256_maskz_loadu_ps(used, theta) : _mm256_setzero_ps();
  const __m512d delta = _mm512_sub_pd(_mm512_maskz_cvtps_pd(0xff, _mm256_maskz_loadu_ps(used, row)),
                                      _mm512_maskz_cvtps_pd(0xff, base));
  const __m512d addend = _mm512_mul_pd(delta, scale);
  const __mmask8 fits = _mm512_cmp_pd_mask(_mm512_abs_pd(addend), limit, _CMP_LE_OQ);
  fitted &= fits;
  squared = _mm512_add_pd(squared, _mm512_mul_pd(delta, delta));
  const __m512i rounded = _mm512_maskz_cvtpd_epi64(fits, addend);
  const __m512i before = _mm512_maskz_loadu_epi64(used, fixed);
  _mm512_mask_storeu_epi64(fixed, used, _mm512_add_epi64(before, rounded));
  if (kTheta) _mm256_mask_storeu_ps(row, used, base);
}

template <bool kTheta>
HANSE_AVX512 FoldSums fold_eights(float* row, const float* theta, int64_t* fixed, std::size_t n,
                                  double scale, double limit) {
  const __m512d scales = _mm512_set1_pd(scale);
  const __m512d limits = _mm512_set1_pd(limit);
  __m512d squared = _mm512_setzero_pd();
  __mmask8 fitted = 0xff;
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    fold_eight<kTheta>(row + i, theta + i, fixed + i, 0xff, scales, limits, squared, fitted);
  }
  if (i < n) {
    const auto used = static_cast<__mmask8>((1U << (n - i)) - 1U);
    fold_eight<kTheta>(row + i, theta + i, fixed + i, used, scales, limits, squared, fitted);
  }
  FoldSums sums;
  _mm512_storeu_pd(sums.squared, squared);
  sums.in_range = fitted == 0xff;
  return sums;
}

FoldSums fold_avx512(float* row, const float* theta, int64_t* fixed, std::size_t n, double scale,
                     double limit) {
  const FoldKernel fold = theta != nullptr ? fold_eights<true> : fold_eights<false>;
  return fold(row, theta, fixed, n, scale, limit);
}

#endif

}  // namespace

FoldKernel best_fold_kernel() {
#if defined(__x86_64__)
  if (has_avx512()) return fold_avx512;
#endif
  return fold_plain;
}

}  // namespace hanse
