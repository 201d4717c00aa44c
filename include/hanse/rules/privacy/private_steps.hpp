// Steps of DP-SGD (Abadi et al. 2016): what a step of a client releases of each of its samples.
//
// A step takes each of the client's n samples with probability batch / n, by secret words, and adds
// up their gradients, each clipped, in float64. The sum is rounded to a lattice, gets noise of
// integers, and is divided by the expected batch. Neighbours are samples whose gradients become 0
// (zero-out), which moves the integers of a step by `lattice.bound` at most if they are drawn:
//   |rint(a) - rint(b)| <= |a - b| + sqrt(P),  a and b the two sums in steps of the lattice,
// and a - b is the sample's gradient, but for what rounding makes of either sum (Model::
// clipped_gradient). So gradients are clipped to a little less than the bound.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/base/cipher.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/clipping.hpp"
#include "hanse/rules/privacy/noise.hpp"
#include "hanse/rules/privacy/options.hpp"

namespace hanse {

// The noise of each step.
struct StepNoise {
  double clip = 1;  // of a sample's gradient
  Lattice lattice;  // whose bound is how far a sample moves a step's integers
  Mechanism mechanism = Mechanism::kDiscreteGaussian;
  int64_t variance = 0;  // steps^2
  Noise law{mechanism, 0};

  // For models of n_params trained values and clients of at most `most_samples`. Throws
  // InvalidArgument where the lattice is too coarse or too fine for them.
  static StepNoise of(const PrivacyOptions& options, double multiplier, int64_t n_params,
                      int64_t most_samples);

  RoundNoise released() const;  // as the accountant counts it
  double deviation() const;     // of the noise on a step's sum
};

// The noise and the present secret, which its owner moves on with the rounds.
struct PrivateSteps {
  StepNoise noise;
  CipherKey secret;

  // That of a client's steps in a round.
  CipherKey key_of(int64_t client, int64_t round) const {
    return secret.derived(static_cast<uint64_t>(client)).derived(static_cast<uint64_t>(round));
  }
};

// The words that say which samples a client's steps take, and the key of a step's noise.
inline CipherStream batch_words(const CipherKey& client) { return CipherStream(client.derived(0)); }
inline CipherKey noise_key(const CipherKey& client, int64_t step) {
  return client.derived(static_cast<uint64_t>(step) + 1);
}

// Writes those of [0, samples) that a step takes, each with probability
// poisson_threshold(batch, samples) / 2^53. Cost: a word a sample. REQUIRES: 1 <= batch <= samples.
void draw_batch(CipherStream& words, int64_t samples, int64_t batch, std::vector<int32_t>& taken);

// gradient <- (sum, rounded to the lattice, + noise) / expected. `integers` is room for the sum.
// Cost: Noise::add and two passes.
void take_noised_mean(const StepNoise& noise, const CipherKey& key, std::span<const double> sum,
                      double expected, std::span<int64_t> integers, std::span<float> gradient);

}  // namespace hanse
