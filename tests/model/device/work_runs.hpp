// For tests of what kernels do: values, and runs on the host whose items, and threads of a block,
// come in another order than run() has them. None may depend on another one's.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "hanse/base/random.hpp"
#include "model/device/work.hpp"

namespace hanse {

using Row = std::vector<float>;

inline Row drawn(int64_t n, uint64_t key = 1) {
  RandomStream stream(key, Purpose::kData);
  Row row(static_cast<std::size_t>(n));
  for (float& x : row) x = static_cast<float>(stream.normal());
  return row;
}

template <class One>
void run_backwards(const One& work, int64_t n) {
  if constexpr (BlockWork<One>) {
    const auto scratch = std::make_unique<typename One::Scratch>();
    for (int64_t block = n - 1; block >= 0; --block) {
      std::memset(static_cast<void*>(scratch.get()), 0xff, sizeof(*scratch));  // NaN
      for (int phase = 0; phase < work.phases(); ++phase) {
        for (int thread = One::kThreads - 1; thread >= 0; --thread) {
          work(phase, block, thread, *scratch);
        }
      }
    }
  } else {
    for (int64_t item = n - 1; item >= 0; --item) work(item);
  }
}

}  // namespace hanse
