// The clip that follows a quantile of the clients' norms (Andrew et al. 2021).
#pragma once

#include <cstdint>

namespace hanse {

struct AdaptiveClip {
  double quantile = 0.5;   // of the norms, gamma
  double rate = 0.2;       // of the change, eta
  double count_noise = 1;  // deviation of the noise on the count of those within the clip, sigma_b
  double expected = 1;     // participants of a round, n, fixed and public

  // What a participant adds to the count: 1 within the clip, else -1; nothing who is absent. One
  // client moves it by 1 under zero-out, by 2 under replace.
  static int64_t bit(double norm, double clip) { return norm <= clip ? 1 : -1; }

  // The variance of the noise on the sum of bits, ceil((2 sigma_b)^2).
  int64_t count_variance() const;

  // The next clip, from this one and the noised sum of bits: clip exp(-eta (b - gamma)), with
  // b = sum / (2 n) + 1/2 in [0, 1] the share within the clip.
  double next(double clip, int64_t noised_sum) const;

  // The noise multiplier of the updates by which updates and count together cost what `multiplier`
  // would alone: (z^-2 - (2 sigma_b)^-2)^(-1/2). Throws InvalidArgument when the count alone costs
  // as much.
  double update_multiplier(double multiplier) const;
};

}  // namespace hanse
