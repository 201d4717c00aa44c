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
  bool operator==(const GaussianRounds&) const = default;
};

// An epsilon with which the rounds together are (epsilon, delta)-private, when a client is added or
// removed: at least the exact one. Rounds that everyone is in are one Gaussian, whose epsilon has a
// closed form (Balle and Wang 2018).
//
// Others by their losses X, of law p on a grid (Koskela et al. 2020), which is harder to bear than
// the Gaussian one. All T rounds together have delta(epsilon) = sum_x p^T(x) (1 - e^(epsilon -
// x))_+, with p^T the law of T losses' sum. It is computed by tilted laws p_s(x) = p(x) e^(s x) /
// M(s), whose sum has p_s^T(x) = p^T(x) e^(s x) / M(s)^T, so that
//
//   delta(epsilon) = M(s)^T sum_x p_s^T(x) f(x),  f(x) = e^(-s x) (1 - e^(epsilon - x))_+,
//
// with the s of the least Chernoff bound M(s)^T max f = M(s)^T e^(-s epsilon) s^s / (1+s)^(1+s).
// p_s^T then lies around epsilon, and what is neglected is small beside delta, however small delta
// is. Added to delta is more than
// - what has become infinite: T times that of a round;
// - what Fourier transforms of N values wrap around: the probabilities that the tilted sum is
//   outside of their range, by Chernoff's bound, times M(s)^T max f;
// - what transforms and powers round: with |transform| <= 1 a power has T times the error of its
//   base, and an inverse transform no larger an error in the 2-norm; so the error is M(s)^T |f|_2
//   (T (u log2 N |p_s|_2 + u |p_s^T|_2) + u log2 N |p_s^T|_2), with u = 2^-49 (Higham 2002, Theorem
//   24.2);
// - by a factor, T times the rounding of a tilted mass.
// The sum over x falls as epsilon rises, so the least epsilon that passes is at least the exact
// one. The grid has N = 4200 sqrt(T) places, 2^13 to 2^19 of them, in some 11 deviations of the
// sum; a rough one has 600 sqrt(T), 2^11 to 2^16, and is as valid.
//
// Infinite when it would be above 600. Cost: 3 ms for a few rounds, 0.3 s for 10^6. REQUIRES: 0 <
// delta < 1, deviation > 0, 0 < rate <= 1.
enum class LossGrids { kFine, kRough };
double loss_distribution_epsilon(std::span<const GaussianRounds> rounds, double delta,
                                 LossGrids grids = LossGrids::kFine);

}  // namespace hanse
