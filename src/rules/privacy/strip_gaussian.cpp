#include "hanse/rules/privacy/strip_gaussian.hpp"

#include <algorithm>
#include <cmath>

namespace hanse {

namespace {

// A number in [0, 1) of 256 bits, the lowest word first. Results are rounded down.
using Fraction = std::array<uint64_t, 4>;

Fraction divided(const Fraction& x, uint64_t by) {
  Fraction quotient;
  Uint128 rest = 0;
  for (std::size_t i = x.size(); i-- > 0;) {
    const Uint128 digits = rest << 64 | x[i];
    quotient[i] = static_cast<uint64_t>(digits / by);
    rest = digits % by;
  }
  return quotient;
}

Fraction product(const Fraction& x, const Fraction& y) {
  std::array<uint64_t, 8> all{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    Uint128 carry = 0;
    for (std::size_t j = 0; j < y.size(); ++j) {
      carry += static_cast<Uint128>(x[i]) * y[j] + all[i + j];
      all[i + j] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
    all[i + y.size()] = static_cast<uint64_t>(carry);
  }
  Fraction high;
  std::copy_n(all.begin() + 4, 4, high.begin());
  return high;
}

// Modulo 1.
Fraction sum(const Fraction& x, const Fraction& y) {
  Fraction all;
  Uint128 carry = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    carry += static_cast<Uint128>(x[i]) + y[i];
    all[i] = static_cast<uint64_t>(carry);
    carry >>= 64;
  }
  return all;
}

// 1 - x, for x > 0.
Fraction complement(Fraction x) {
  for (uint64_t& word : x) word = ~word;
  return sum(x, {1, 0, 0, 0});
}

// exp(-1/128) = 1 - (t_1 - t_2 + t_3 - ...), t_n = t_{n-1} / (128 n); modulo 1 signs cost nothing.
Fraction exp_of_strip() {
  Fraction term = divided({0, 0, 0, uint64_t{1} << 63}, 64);
  Fraction series = term;
  for (uint64_t n = 2; term != Fraction{}; ++n) {
    term = divided(term, 128 * n);
    if (term != Fraction{}) series = sum(series, n % 2 == 0 ? complement(term) : term);
  }
  return complement(series);
}

// The least x with x^2 >= n.
int64_t root_above(Uint128 n) {
  auto x = static_cast<Uint128>(std::sqrt(static_cast<double>(n)));
  while (x * x < n) ++x;
  while (x > 0 && (x - 1) * (x - 1) >= n) --x;
  return static_cast<int64_t>(x);
}

}  // namespace

// F_{k+1} = F_k q^(2k+1), q = exp(-1/128). The errors stay below 2^-230.
Strips::Strips() {
  const Fraction q = exp_of_strip(), q2 = product(q, q);
  Fraction power = q, weight{0, 0, 0, uint64_t{97} << 54}, total{};
  for (Bound& bound : bounds_) {
    total = sum(total, weight);
    bound = {total[3], total[2]};
    weight = product(weight, power);
    power = product(power, q2);
  }
  for (std::size_t i = 0; i < first_.size(); ++i) {
    const auto found = std::ranges::lower_bound(bounds_, static_cast<uint64_t>(i) << 55, {},
                                                [](const Bound& bound) { return bound.high; });
    first_[i] = static_cast<uint8_t>(found - bounds_.begin());
  }
}

const Strips& Strips::all() {
  static const Strips strips;
  return strips;
}

int64_t Strips::behind_tie(int64_t k, uint64_t high, uint64_t low) const {
  for (; k < kCount && bound(k).high == high; ++k) {
    if (low < bound(k).low) return k;
    if (low - bound(k).low <= 1) throw Error("a sample of noise has a probability below 2^-120");
  }
  return k;
}

StripGaussian::StripGaussian(int64_t variance)
    : strips_(&Strips::all()),
      variance_(static_cast<uint64_t>(DiscreteGaussian(variance).variance())) {
  for (std::size_t k = 0; k < begins_.size(); ++k) {
    begins_[k] = root_above((static_cast<Uint128>(k * k) * variance_ + 63) / 64);
    if (k > 0) places_ = std::max(places_, static_cast<uint64_t>(begins_[k] - begins_[k - 1]));
  }
}

}  // namespace hanse
