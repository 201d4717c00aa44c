#include "byte_floats.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "hanse/base/processor.hpp"

namespace hanse {

namespace {

void convert_plain(const std::byte* in, float* out, int64_t count, float scale) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(static_cast<uint8_t>(in[i])) * scale;
  }
}

// Compilers widen bytes in two steps, each of which takes the one unit that can, and so twice the
// time of the stores.
#if defined(__x86_64__)

HANSE_AVX2 void convert_avx2(const std::byte* in, float* out, int64_t count, float scale) {
  const __m256 factor = _mm256_set1_ps(scale);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + i));
    const __m256 whole = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(whole, factor));
  }
  convert_plain(in + i, out + i, count - i, scale);
}

HANSE_AVX512 void convert_avx512(const std::byte* in, float* out, int64_t count, float scale) {
  const __m512 factor = _mm512_set1_ps(scale);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    const __m512i wide = _mm512_maskz_cvtepu8_epi32(0xffff, bytes);
    const __m512 whole = _mm512_maskz_cvtepi32_ps(0xffff, wide);
    _mm512_storeu_ps(out + i, _mm512_mul_ps(whole, factor));
  }
  convert_plain(in + i, out + i, count - i, scale);
}

#endif

}  // namespace

std::vector<ByteConversion> byte_conversions() {
  std::vector<ByteConversion> found;
#if defined(__x86_64__)
  if (has_avx512()) found.push_back(convert_avx512);
  if (has_avx2()) found.push_back(convert_avx2);
#endif
  found.push_back(convert_plain);
  return found;
}

void bytes_to_floats(const std::byte* in, float* out, int64_t count, float scale) {
  static const ByteConversion kFastest = byte_conversions().front();
  kFastest(in, out, count, scale);
}

}  // namespace hanse
