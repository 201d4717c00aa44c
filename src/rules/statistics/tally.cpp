#include "hanse/rules/statistics/tally.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr int kBits = 42;  // of a term
constexpr int kLimbs = 4;  // of a number

double magic_of(double bound) { return std::ldexp(1.5, 52 - kBits + tally_exponent(bound)); }

// Inlined into functions of different instruction sets; the operations and their roundings are the
// same in all of them.
[[gnu::always_inline]] inline void row(double factor, const double* __restrict x, std::size_t n,
                                       double magic, double* __restrict partial) {
  for (std::size_t k = 0; k < n; ++k) partial[k] += (factor * x[k] + magic) - magic;
}

[[gnu::always_inline]] inline void products(double weight, const double* __restrict x,
                                            std::size_t n, double magic,
                                            double* __restrict partial) {
  for (std::size_t j = 0; j < n; ++j) {
    row(weight * x[j], x, j + 1, magic, partial);
    partial += j + 1;
  }
}

using Products = void (*)(double weight, const double* x, std::size_t n, double magic,
                          double* partial);

void products_portable(double weight, const double* x, std::size_t n, double magic,
                       double* partial) {
  products(weight, x, n, magic, partial);
}

// Called through a pointer, because the thread sanitizer cannot load target_clones.
#if defined(__x86_64__)
[[gnu::target("avx2")]] void products_avx2(double weight, const double* x, std::size_t n,
                                           double magic, double* partial) {
  products(weight, x, n, magic, partial);
}

Products fastest() { return __builtin_cpu_supports("avx2") ? products_avx2 : products_portable; }
#else
Products fastest() { return products_portable; }
#endif

}  // namespace

int tally_exponent(double bound) {
  if (!(bound >= 0) || std::isinf(bound)) throw Error("a sum's terms have no finite bound");
  if (bound == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(bound, &exponent);  // in [1/2, 1)
  return fraction == 0.5 ? exponent - 1 : exponent;
}

Tally::Tally(std::span<const double> bounds) : partial_(bounds.size()), sums_(bounds.size()) {
  for (const double bound : bounds) magic_.push_back(magic_of(bound));
}

Tally::Tally(std::size_t m, double bound) : magic_(m, magic_of(bound)), partial_(m), sums_(m) {}

void Tally::add_products(std::size_t begin, double weight, std::span<const double> x) {
  static const Products kFastest = fastest();
  kFastest(weight, x.data(), x.size(), magic_[begin], partial_.data() + begin);
}

void Tally::add_row(std::size_t begin, double factor, std::span<const double> x) {
  row(factor, x.data(), x.size(), magic_[begin], partial_.data() + begin);
}

void Tally::flush() {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const double unit = magic_[i] / (1.5 * 0x1p52);
    const double units = partial_[i] / unit;  // whole
    if (!(std::abs(units) <= 0x1p52)) throw Error("a term of a sum is beyond its bound");
    sums_[i] += static_cast<int64_t>(units);
    partial_[i] = 0;
  }
  pending_ = 0;
}

double Tally::value(std::size_t number) {
  if (pending_ > 0) flush();
  const double unit = magic_[number] / (1.5 * 0x1p52);
  return static_cast<double>(sums_[number]) * unit;
}

std::vector<double> Tally::values() {
  std::vector<double> all(size());
  for (std::size_t i = 0; i < size(); ++i) all[i] = value(i);
  return all;
}

std::vector<int64_t> Tally::limbs() {
  if (pending_ > 0) flush();
  std::vector<int64_t> limbs;
  for (__int128 rest : sums_) {
    for (int k = 0; k + 1 < kLimbs; ++k) {
      limbs.push_back(static_cast<int64_t>(static_cast<uint32_t>(rest)));
      rest >>= 32;  // arithmetic: the last limb has the sign
    }
    limbs.push_back(static_cast<int64_t>(rest));
  }
  return limbs;
}

void Tally::set_limbs(std::span<const int64_t> limbs) {
  for (std::size_t i = 0; i < size(); ++i) {
    __int128 sum = 0;
    for (int k = kLimbs - 1; k >= 0; --k) {
      sum = sum * (__int128{1} << 32) + limbs[i * kLimbs + static_cast<std::size_t>(k)];
    }
    sums_[i] = sum;
    partial_[i] = 0;
  }
  pending_ = 0;
}

}  // namespace hanse
