// Images whose channels stand last, as pictures and NumPy's arrays have them.
#pragma once

#include <cstdint>

namespace hanse {

// [pixels, channels] of one sample becomes out [channels, pixels].
template <class T>
void put_channels_first(const T* sample, int64_t channels, int64_t pixels, T* out) {
  for (int64_t k = 0; k < channels; ++k) {
    for (int64_t p = 0; p < pixels; ++p) *out++ = sample[p * channels + k];
  }
}

}  // namespace hanse
