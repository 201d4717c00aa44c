// Privacy loss distributions of Gaussian rounds, rounded up.
#pragma once

#include <cstdint>
#include <span>

namespace hanse {

// Rounds whose noise has this deviation in units of the sensitivity. Each client is in a round with
// probability `rate`, whatever the others do; 1: in every round.
struct GaussianRounds {
  double deviation = 1;
  double rate = 1;
  int64_t rounds = 1;
};

// An epsilon with which the rounds together are (epsilon, delta)-private, when a client is added or
// removed: at least the exact one. The losses of one round (Koskela et al. 2020) are put on a grid
// of 2^-13 such that the grid's pair of laws is the easier one to tell apart: each cell's masses go
// to its two ends, and both laws keep theirs (Doroshenko et al. 2022). Laws are composed by Fourier
// transforms; what they cut off or round is added to delta. Rounds that everyone is in are one
// Gaussian, whose epsilon has a closed form (Balle and Wang 2018). Infinite when it would be above
// 600. Cost: some 0.1 s; of the closed form nothing. REQUIRES: 0 < delta < 1, deviation > 0, 0 <
// rate <= 1.
double loss_distribution_epsilon(std::span<const GaussianRounds> rounds, double delta);

}  // namespace hanse
