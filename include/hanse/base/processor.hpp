// What this processor can do.
#pragma once

#include <cstdint>
#include <string_view>

// Marks a function that uses them; call it only where has_avx512() and has_avx2() say so.
#if defined(__x86_64__)
#define HANSE_AVX2 __attribute__((target("avx2,fma")))
#define HANSE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#endif

namespace hanse {

// Rows of more values, each of 4 or 8 bytes, have left every core's cache when they are used again.
inline constexpr int64_t kCachedValues = int64_t{1} << 20;

// The AVX-512 that vector kernels are written for: F, BW, DQ and VL.
inline bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

// AVX2 and FMA.
inline bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

// Does the processor run the BLAS kernels of this family? Of an unknown one it does not.
inline bool runs_blas_kernels(std::string_view family) {
  if (family == "SapphireRapids" || family == "Cooperlake" || family == "SkylakeX") {
    return has_avx512();
  }
  return family == "Haswell" ? has_avx2() : family == "Nehalem";
}

}  // namespace hanse
