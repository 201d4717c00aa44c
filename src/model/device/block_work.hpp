// Works whose threads know of each other: blocks of threads that have memory in common and wait for
// each other between phases. Host and GPU have the same bits, as each phase is a function of a
// thread.
//
//   struct Work {
//     static constexpr int kThreads = 256;
//     struct Scratch { ... };  // what is in it at first is anything
//     int phases() const;
//     void operator()(int phase, int64_t block, int thread, Scratch& scratch) const;
//   };
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/base/both_sides.hpp"

namespace hanse {

template <class One>
concept BlockWork = requires {
  typename One::Scratch;
};

// On the host.
template <BlockWork One>
void run_blocks(const One& work, int64_t blocks) {
  const auto scratch = std::make_unique<typename One::Scratch>();
  for (int64_t block = 0; block < blocks; ++block) {
    for (int phase = 0; phase < work.phases(); ++phase) {
      for (int thread = 0; thread < One::kThreads; ++thread) work(phase, block, thread, *scratch);
    }
  }
}

// Sums of a block's `n` values, a power of two, in a tree: phases 0, 1, ... halvings(n) - 1 leave
// it in values[0].
constexpr int halvings(int n) { return n > 1 ? 1 + halvings(n / 2) : 0; }
HANSE_BOTH_SIDES inline void halve(int phase, int thread, int n, float* values) {
  const int half = n >> (phase + 1);
  if (thread < half) values[thread] += values[thread + half];
}

}  // namespace hanse
