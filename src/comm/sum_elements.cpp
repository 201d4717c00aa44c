#include "hanse/comm/sum_elements.hpp"

#include <algorithm>

#include "hanse/base/processor.hpp"

namespace hanse {

namespace {

template <class T>
inline __attribute__((always_inline)) void add_loop(const T* __restrict row, int64_t count,
                                                    T* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += row[i];
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
// Which has an instruction for integers of 64 bits.
HANSE_AVX512 void take_avx512(const int64_t* sum, int64_t count, double unit, float* out) {
  take_loop(sum, count, unit, out);
}
#endif

auto best_take() {
#if defined(__x86_64__)
  if (has_avx512()) return take_avx512;
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
