// Loops that are shared among threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include <cblas.h>

namespace hanse {

// The number of threads that OpenBLAS may use, at most `count`.
inline int64_t number_of_shares(int64_t count) {
  return std::max<int64_t>(1, std::min<int64_t>(count, openblas_get_num_threads()));
}

// Calls f(share, first, end) for nearly equal shares of `count`, each in a thread of its own.
// REQUIRES: f throws nothing. Cost: the start of a thread for every share but one, 20 us.
template <class F>
void in_shares(int64_t count, F f) {
  const int64_t shares = number_of_shares(count);
  const auto work = [&](int64_t share) {
    f(share, count * share / shares, count * (share + 1) / shares);
  };
  std::vector<std::jthread> others;
  for (int64_t share = 1; share < shares; ++share) others.emplace_back(work, share);
  work(0);
}

}  // namespace hanse
