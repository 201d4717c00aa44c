// Noise of one kind, for blocks of a sum's integers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "hanse/base/cipher.hpp"
#include "hanse/rules/privacy/integer_noise.hpp"
#include "hanse/rules/privacy/strip_gaussian.hpp"

namespace hanse {

enum class Mechanism { kDiscreteGaussian, kSkellam, kGaussian };
constexpr auto choices_of(Mechanism) {
  return std::array{"discrete-gaussian", "skellam", "gaussian"};
}

// A short group of the parameters has a stream of its own, the number of which is the group's: so
// the noise does not depend on who draws it, be it a thread of a device for each group.
constexpr int64_t kNoiseGroup = 32;
// The ranks share the parameters by blocks of so many.
constexpr int64_t kNoiseBlock = 4096;

// Noise of a variance in steps^2. kGaussian is float64 noise, rounded to the lattice, for
// comparison: its low bits tell what it was added to.
class Noise {
 public:
  // No noise at `variance` 0. Throws InvalidArgument where the mechanism cannot have it.
  Noise(Mechanism mechanism, int64_t variance);
  // The same law by other samples: StripGaussian's, which take less time.
  static Noise by_strips(Mechanism mechanism, int64_t variance);

  // Adds a sample to each integer, modulo 2^64. Cost: the law's draw().
  void add(CipherStream& words, std::span<int64_t> sum) const;

  // The variance of a share of `shares`, whose sum has at least `variance`: it is rounded up, and
  // to an even number where Skellam needs one.
  static int64_t share(Mechanism mechanism, int64_t variance, int64_t shares);

 private:
  struct Gaussian {
    double deviation;
  };
  std::variant<std::monostate, DiscreteGaussian, StripGaussian, Skellam, Gaussian> law_;
};

}  // namespace hanse
