// What one core reaches at best:
//   build/hanse-bench-limits
// Prints as JSON the GFLOP/s of OpenBLAS's product of two matrices of 1024 x 1024 floats ("sgemm"),
// and the GB/s, read and written, of a copy that no cache holds ("copy"): the best of some trials.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include <cblas.h>

#include "hanse/base/clock.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/model/threads.hpp"

namespace hanse {
namespace {

template <class Work>
double least_seconds(int trials, Work work) {
  double least = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < trials; ++trial) {
    const double start_s = monotonic_seconds();
    work();
    least = std::min(least, monotonic_seconds() - start_s);
  }
  return least;
}

double sgemm_gflops() {
  constexpr int kSide = 1024;
  const std::vector<float> a(kSide * kSide, 0.5F), b(kSide * kSide, 0.25F);
  std::vector<float> c(kSide * kSide);
  const double seconds = least_seconds(20, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSide, kSide, kSide, 1, a.data(), kSide,
                b.data(), kSide, 0, c.data(), kSide);
  });
  return 2e-9 * kSide * kSide * kSide / seconds;
}

double copy_gigabytes() {
  constexpr std::size_t kBytes = 256 << 20;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 2);
  const double seconds = least_seconds(5, [&] { std::memcpy(to.data(), from.data(), kBytes); });
  return 2e-9 * static_cast<double>(kBytes) / seconds;
}

}  // namespace
}  // namespace hanse

extern "C" int hanse_main(int, char**, const hanse::Start&) {
  hanse::set_model_threads(1);
  std::printf("{\"sgemm\": %.1f, \"copy\": %.2f}\n", hanse::sgemm_gflops(),
              hanse::copy_gigabytes());
  return 0;
}
