// Exact integer noise from 64-bit words: the discrete Gaussian (Canonne, Kamath and Steinke 2020)
// and Skellam's law. No floating point enters, so that no low bit tells what the noise was added
// to.
//
// `Uniform` is a source of uniform integers: below(n) in {0, ..., n-1} for a uint64_t and for a
// Uint128. UniformWords makes one of a stream of words.
#pragma once

#include <cstdint>

#include "hanse/base/error.hpp"
#include "hanse/base/uniform.hpp"

namespace hanse {

// The largest variance of the discrete Gaussian, at which 128 bits hold every number on the way.
constexpr int64_t kMostGaussianVariance = int64_t{1} << 56;
// Skellam's noise takes as many words as its variance.
constexpr int64_t kMostSkellamVariance = int64_t{1} << 16;

template <class Words>
class UniformWords {
 public:
  explicit UniformWords(Words& words) : words_(words) {}
  uint64_t below(uint64_t n) { return uniform_below(words_, n); }
  Uint128 below(Uint128 n) { return uniform_below_wide(words_, n); }

 private:
  Words& words_;
};

// True with probability exp(-a/b): the parity of how long the partial products of a/(b k) last.
// REQUIRES: 0 <= a <= b.
template <class Uniform, class Integer>
bool bernoulli_exp_small(Uniform& uniform, Integer a, Integer b) {
  Integer k = 1;
  while (uniform.below(static_cast<Integer>(b * k)) < a) ++k;
  return (k & 1) != 0;
}

// True with probability exp(-a/b), for any a >= 0.
template <class Uniform, class Integer>
bool bernoulli_exp(Uniform& uniform, Integer a, Integer b) {
  for (; a > b; a -= b) {
    if (!bernoulli_exp_small(uniform, uint64_t{1}, uint64_t{1})) return false;
  }
  return bernoulli_exp_small(uniform, a, b);
}

// P(x) ~ exp(-|x|/t). REQUIRES: 1 <= t <= 2^29. Throws Error at |x| >= 64 t, of a probability below
// 2^-92.
template <class Uniform>
int64_t discrete_laplace(Uniform& uniform, uint64_t t) {
  for (;;) {
    uint64_t u = uniform.below(t);
    while (!bernoulli_exp_small(uniform, u, t)) u = uniform.below(t);
    uint64_t v = 0;
    while (bernoulli_exp_small(uniform, uint64_t{1}, uint64_t{1})) {
      if (++v == 64) throw Error("a sample of noise has a probability below 2^-92");
    }
    const auto x = static_cast<int64_t>(u + t * v);
    const bool is_negative = uniform.below(uint64_t{2}) != 0;
    if (is_negative && x == 0) continue;
    return is_negative ? -x : x;
  }
}

// The largest integer whose square is at most n. REQUIRES: n < 2^62.
uint64_t integer_root(uint64_t n);

// The discrete Gaussian, P(x) ~ exp(-x^2 / (2 variance)): the discrete Laplace of scale
// t = floor(sd) + 1, of which exp(-(|y| t - variance)^2 / (2 variance t^2)) are kept. Cost: 14 to
// 18 words, 0.14 us.
class DiscreteGaussian {
 public:
  // Throws InvalidArgument unless 1 <= variance <= kMostGaussianVariance.
  explicit DiscreteGaussian(int64_t variance);

  int64_t variance() const { return static_cast<int64_t>(variance_); }

  template <class Uniform>
  int64_t draw(Uniform& uniform) const {
    for (;;) {
      const int64_t y = discrete_laplace(uniform, scale_);
      const uint64_t reach = static_cast<uint64_t>(y < 0 ? -y : y) * scale_;  // < 2^63
      const uint64_t off = reach > variance_ ? reach - variance_ : variance_ - reach;
      if (bernoulli_exp(uniform, static_cast<Uint128>(off) * off, denominator_)) return y;
    }
  }

 private:
  uint64_t variance_;
  uint64_t scale_;
  Uint128 denominator_;  // 2 variance scale^2, < 2^114
};

// Poisson(1), with 3.2 words a draw (Duchon and Duvignau 2016).
template <class Uniform>
int64_t draw_poisson1(Uniform& uniform) {
  int64_t count = 1;
  uint64_t top = 1, bar = 0;
  for (;; ++top) {
    const uint64_t j = uniform.below(top + 1);
    if (j < top && j < bar) return count;
    if (j == top) {
      ++count;
    } else {
      --count;
      bar = top + 1;
    }
  }
}

// Skellam's law: Poisson(variance/2) - Poisson(variance/2), closed under sums.
class Skellam {
 public:
  // Throws InvalidArgument unless `variance` is even and in [2, kMostSkellamVariance].
  explicit Skellam(int64_t variance);

  int64_t variance() const { return 2 * half_; }

  template <class Uniform>
  int64_t draw(Uniform& uniform) const {
    int64_t x = 0;
    for (int64_t i = 0; i < half_; ++i) x += draw_poisson1(uniform);
    for (int64_t i = 0; i < half_; ++i) x -= draw_poisson1(uniform);
    return x;
  }

 private:
  int64_t half_;
};

}  // namespace hanse
