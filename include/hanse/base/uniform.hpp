// Uniform integers and normal numbers from any source of 64-bit words: a class with `uint64_t
// next()`.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace hanse {

using Uint128 = unsigned __int128;

// Uniform in {0, ..., n-1} without bias (Lemire 2019). REQUIRES: n >= 1.
template <class Words>
uint64_t uniform_below(Words& words, uint64_t n) {
  Uint128 product = static_cast<Uint128>(words.next()) * n;
  if (static_cast<uint64_t>(product) < n) {
    const uint64_t threshold = -n % n;
    while (static_cast<uint64_t>(product) < threshold) {
      product = static_cast<Uint128>(words.next()) * n;
    }
  }
  return static_cast<uint64_t>(product >> 64);
}

// The same of larger numbers: uniform_below() up to 2^63; above, the remainder of two words, the
// first one high, where pairs that would make small remainders likelier are drawn again.
template <class Words>
Uint128 uniform_below_wide(Words& words, Uint128 n) {
  if (n <= Uint128{1} << 63) return uniform_below(words, static_cast<uint64_t>(n));
  for (;;) {
    const auto high = static_cast<Uint128>(words.next());
    const Uint128 pair = (high << 64) | words.next();
    const Uint128 rest = pair % n;
    // The last whole multiple of n begins at pair - rest; beyond it fewer than n pairs may be left.
    if (pair - rest <= ~Uint128{0} - (n - 1)) return rest;
  }
}

// Standard normal (Box-Muller; two words a value, so that the count of words is fixed).
template <class Words>
double standard_normal(Words& words) {
  const auto uniform = [&words] { return static_cast<double>(words.next() >> 11) * 0x1p-53; };
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));  // 1 - u is never 0
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace hanse
