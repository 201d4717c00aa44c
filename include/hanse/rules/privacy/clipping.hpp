// An update as a vector of integers whose length is proved: clipping, rounding and an audit.
#pragma once

#include <cstdint>
#include <span>

namespace hanse {

// Multiples of a step, and the largest length of a client's vector in steps.
struct Lattice {
  int exponent = 0;   // the step is 2^exponent
  int64_t bound = 0;  // S, steps

  // S = floor(clip / 2^exponent). Throws InvalidArgument unless 1 <= S < 2^62.
  static Lattice of(double clip, int exponent);

  double step() const;
  double clip() const;  // S steps: what updates are clipped to
  // ceil((multiplier S)^2), steps^2, in integers; for multipliers below 2^-8 no less, and at most 1
  // more. Throws InvalidArgument when it is above kMostGaussianVariance. REQUIRES: multiplier >= 0.
  int64_t noise_variance(double multiplier) const;
  double most_multiplier() const;  // for which it does not throw
};

// The exponent of the largest power of two <= deviation / 2^bits, in [least, 0]. REQUIRES:
// deviation > 0.
int step_exponent(double deviation, int bits = 20, int least = -44);

struct ClippedUpdate {
  double norm = 0;          // |u| before the clip; NaN or infinite: the entries are all 0
  bool is_clipped = false;  // |u| was larger than the clip
  int shortened = 0;        // how often the audit found the vector too long
  bool is_zeroed = false;   // the audit failed kMostShortened times: the entries are all 0
};

constexpr int kMostShortened = 64;

// Writes z_j = trunc(weight u_j min(1, C/|u|) / step) to `out`, such that the sum of z_j^2 is at
// most S^2: proved in 128-bit integers for the vector that is written. A vector that rounding has
// made too long is shortened by 1 - 2^-40 and tried again. |u| is summed in 8 lanes, as UpdateSum
// does. Cost: two passes. REQUIRES: 0 <= weight <= 1; out is as long as u.
ClippedUpdate clip_to_lattice(std::span<const float> update, double weight, const Lattice& lattice,
                              std::span<int64_t> out);

// Is the sum of squares at most bound^2? Exact for every vector. REQUIRES: 0 <= bound < 2^62.
bool is_within(std::span<const int64_t> vector, int64_t bound);

// What a round's audits found.
struct ClipCounts {
  int64_t updates = 0;
  int64_t clipped = 0;
  int64_t shortened = 0;
  int64_t zeroed = 0;

  void count(const ClippedUpdate& update);
};

}  // namespace hanse
