#include "hanse/base/subnormals.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hanse {

#if defined(__x86_64__)

FlushSubnormals::FlushSubnormals() : before_(_mm_getcsr()) {
  constexpr uint32_t kResults = 1 << 15, kOperands = 1 << 6;
  _mm_setcsr(before_ | kResults | kOperands);
}

FlushSubnormals::~FlushSubnormals() { _mm_setcsr(before_); }

#else

FlushSubnormals::FlushSubnormals() = default;
FlushSubnormals::~FlushSubnormals() = default;

#endif

}  // namespace hanse
