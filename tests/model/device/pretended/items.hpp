// The items of a kernel, in another order at each launch, by any number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "model/device/block_work.hpp"

namespace hanse::pretended {

// 0 to n - 1 in an order that follows from `launch`: `stride` and n have no common divisor.
class Shuffled {
 public:
  Shuffled(int64_t n, int64_t launch) : n_(n), first_(n - 1 - launch % n) {
    stride_ = 1 + (launch * 7919) % n;
    while (std::gcd(stride_, n) != 1) ++stride_;
  }
  int64_t operator()(int64_t i) const { return (first_ + i * stride_) % n_; }

 private:
  int64_t n_, first_, stride_ = 0;
};

// Calls part(0), ..., part(parts - 1), each on a thread of its own.
template <class Part>
void on_threads(int64_t parts, const Part& part) {
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < parts; ++i) others.emplace_back(part, i);
  part(0);
}

// Memory of a block, in which there are no numbers at first.
template <class Scratch>
void forget(Scratch& scratch) {
  std::memset(static_cast<void*>(&scratch), 0xff, sizeof(scratch));
}

// Some of the blocks, whose threads the host's threads share: what two of them write or read in one
// phase shows to a sanitizer.
template <BlockWork One>
void share_threads(const One& work, const Shuffled& order, int64_t blocks, int64_t parts) {
  const Shuffled threads(One::kThreads, blocks);
  const auto scratch = std::make_unique<typename One::Scratch>();
  std::barrier together(static_cast<std::ptrdiff_t>(parts));
  on_threads(parts, [&](int64_t part) {
    for (int64_t i = 0; i < blocks; ++i) {
      if (part == 0) forget(*scratch);
      together.arrive_and_wait();
      for (int phase = 0; phase < work.phases(); ++phase) {
        for (int64_t thread = part; thread < One::kThreads; thread += parts) {
          work(phase, order(i), static_cast<int>(threads(thread)), *scratch);
        }
        together.arrive_and_wait();
      }
    }
  });
}

// The blocks from `begin` on, which the host's threads share.
template <BlockWork One>
void share_blocks(const One& work, const Shuffled& order, int64_t begin, int64_t end,
                  int64_t parts) {
  const Shuffled threads(One::kThreads, end);
  on_threads(parts, [&](int64_t part) {
    const auto scratch = std::make_unique<typename One::Scratch>();
    for (int64_t i = begin + part; i < end; i += parts) {
      forget(*scratch);
      for (int phase = 0; phase < work.phases(); ++phase) {
        for (int64_t thread = 0; thread < One::kThreads; ++thread) {
          work(phase, order(i), static_cast<int>(threads(thread)), *scratch);
        }
      }
    }
  });
}

// Runs the n items, or blocks, on so many threads. With several, every second launch has its first
// blocks by share_threads().
template <class One>
void run_items(const One& work, int64_t n, int64_t threads) {
  static std::atomic<int64_t> launches = 0;
  const int64_t launch = ++launches, parts = std::min(threads, n);
  const Shuffled order(n, launch);
  if constexpr (BlockWork<One>) {
    constexpr int64_t kFew = 16;
    const int64_t shared = threads > 1 && launch % 2 == 0 ? std::min(n, kFew) : 0;
    if (shared > 0) share_threads(work, order, shared, threads);
    share_blocks(work, order, shared, n, parts);
  } else {
    on_threads(parts, [&](int64_t part) {
      for (int64_t i = part; i < n; i += parts) work(order(i));
    });
  }
}

}  // namespace hanse::pretended
