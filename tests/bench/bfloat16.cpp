// Products in bfloat16 on this processor: are the bits of every family of kernels those of the
// definition, and how fast are they beside float32? One core; needs no file and no library.
//
//   hanse-bench-bfloat16 [--check]     the check alone, without times
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <cblas.h>
#include <unistd.h>

#include "hanse/base/subnormals.hpp"
#include "model/bfloat16_reference.hpp"
#include "model/kernels/packed_matrix.hpp"

namespace {

using namespace hanse;
using testing::factor_values;
using testing::ProductSize;

// Prints how many values differ in each family; returns their sum.
int64_t check() {
  constexpr int kSizes = 200;
  std::vector<int64_t> wrong(5), values(5);
  for (uint64_t s = 0; s < kSizes; ++s) {
    const auto drawn = factor_values(3, 0, s);
    const auto side = [&](std::size_t i, float most) {
      return 1 + static_cast<int64_t>((drawn[i] + 1) / 2 * most);
    };
    const ProductSize size{side(0, 70), side(1, 90), side(2, 150)};
    for (const int kind : {0, 1, 2}) {
      const auto a = factor_values(size.m * size.k, kind, 2 * s + 100);
      const auto b = factor_values(size.k * size.n, kind, 2 * s + 101);
      const auto expected = testing::product_of(size, a, b);
      const FlushSubnormals flush;
      for (const ProductFamily family : product_families()) {
        const auto at = static_cast<std::size_t>(family);
        for (const bool turned : {false, true}) {
          const auto found = testing::packed_product(bfloat16_kernels(family), size, a, b, turned);
          for (std::size_t i = 0; i < found.size(); ++i) {
            wrong[at] += testing::same_bits(expected[i], found[i]) ? 0 : 1;
          }
          values[at] += static_cast<int64_t>(found.size());
        }
      }
    }
  }
  int64_t sum = 0;
  for (const ProductFamily family : product_families()) {
    const auto at = static_cast<std::size_t>(family);
    std::printf("%-12s %ld of %ld values differ from the reference\n", name_of(family),
                static_cast<long>(wrong[at]), static_cast<long>(values[at]));
    sum += wrong[at];
  }
  if (product_families().front() != ProductFamily::kAmx) std::printf("AMX          not here\n");
  return sum;
}

// Seconds of a call, the least of five runs of some calls.
template <class F>
double time_of(F f) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&](int64_t calls) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) f();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  int64_t calls = 1;
  while (run(calls) < 0.02) calls *= 2;
  double least = run(calls);
  for (int i = 1; i < 5; ++i) least = std::min(least, run(calls));
  return least / static_cast<double>(calls);
}

struct Shape {
  const char* name;
  ProductSize size;
};

const Shape kShapes[] = {
    {"mlp", {20, 200, 784}},
    {"mlp, weight's gradient", {200, 784, 20}},
    {"cifar conv2", {784, 64, 288}},
    {"cifar conv2, input's gradient", {900, 32, 576}},
    {"cifar conv2, weight's gradient", {288, 64, 7840}},
    {"cifar dense", {10, 128, 12544}},
    {"cifar dense, input's gradient", {10, 12544, 128}},
    {"cifar dense, weight's gradient", {128, 12544, 10}},
    {"femnist conv2", {196, 64, 800}},
    {"femnist dense", {20, 2048, 3136}},
    {"femnist dense, input's gradient", {20, 3136, 2048}},
    {"femnist dense, weight's gradient", {2048, 3136, 20}},
    {"resnet18 64 channels", {1024, 64, 576}},
    {"resnet18 128 channels", {256, 128, 1152}},
    {"resnet18 256 channels", {64, 256, 2304}},
    {"resnet18 512 channels", {16, 512, 4608}},
    {"lstm step", {10, 1024, 256}},
    {"lstm inputs", {800, 1024, 256}},
    {"lstm, weight's gradient", {1024, 256, 800}},
    {"large", {512, 512, 512}},
};

// Prints GF/s: of float32 by OpenBLAS and by our packed products, then of each family the product
// of packed factors, and with the left one's packing; GB/s of float32 that become a right factor.
void time_shape(const Shape& shape) {
  const auto [m, n, k] = shape.size;
  const auto a = factor_values(m * k, 0, 1), b = factor_values(k * n, 0, 2);
  AlignedFloats c(static_cast<std::size_t>(m * n));
  const double gigaflops =
      2e-9 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const double blas = time_of([&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
                static_cast<int>(k), 1, a.data(), static_cast<int>(k), b.data(),
                static_cast<int>(n), 0, c.data(), static_cast<int>(n));
  });
  PackedMatrix packed;
  packed.load(b.data(), k, n);
  const double own = time_of([&] { packed.multiply(a.data(), m, nullptr, c.data()); });
  std::printf("%-32s %5.0f %5.0f", shape.name, gigaflops / blas, gigaflops / own);
  AlignedFloats left(static_cast<std::size_t>(left_floats(m, k)));
  PackedPairs right(static_cast<std::size_t>(right_pairs(k, n)));
  for (const ProductFamily family : product_families()) {
    if (family == ProductFamily::kPlain) continue;
    const Bfloat16Kernels& kernels = bfloat16_kernels(family);
    kernels.pack_left({a.data(), k}, m, k, left.data());
    kernels.pack_right({b.data(), n}, k, n, right.data());
    const Bfloat16Product product{m, n, k, left.data(), right.data(), c.data(), n, 1, 0};
    const double alone = time_of([&] { kernels.multiply(product); });
    const double with_left = time_of([&] {
      kernels.pack_left({a.data(), k}, m, k, left.data());
      kernels.multiply(product);
    });
    const double of_right = time_of([&] {
      kernels.pack_right_transposed({b.data(), k}, k, n, right.data());
    });
    std::printf(" | %5.0f %5.0f %5.1f", gigaflops / alone, gigaflops / with_left,
                4e-9 * static_cast<double>(k * n) / of_right);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void time_all() {
  std::printf(
      "\nGF/s a core: float32 by OpenBLAS (%s) and by packed products; in bfloat16 the\n"
      "product, the same with its left factor's packing, and GB/s of the right one's\n",
      openblas_get_corename());
  std::printf("%-32s  BLAS   own", "");
  for (const ProductFamily family : product_families()) {
    if (family != ProductFamily::kPlain) std::printf(" | %-17s", name_of(family));
  }
  std::printf("\n");
  const FlushSubnormals flush;
  for (const Shape& shape : kShapes) time_shape(shape);
}

// OpenBLAS chooses its kernels before main(): the program starts itself once more.
void choose_blas(char** argv) {
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) return;
  setenv("OPENBLAS_CORETYPE", has_avx512() ? "SkylakeX" : "Haswell", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  execv("/proc/self/exe", argv);
}

}  // namespace

int main(int argc, char** argv) {
  choose_blas(argv);
  const int64_t wrong = check();
  if (argc < 2 || std::strcmp(argv[1], "--check") != 0) time_all();
  return wrong == 0 ? 0 : 1;
}
