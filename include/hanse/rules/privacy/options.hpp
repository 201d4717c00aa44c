// Options of client-level differential privacy: [privacy] of a job.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/noise.hpp"

namespace hanse {

// Who adds the noise: one draw on the sum, or a share with each participant.
enum class PrivacyKind { kNone, kCentral, kDistributed };
constexpr auto choices_of(PrivacyKind) { return std::array{"none", "central", "distributed"}; }

enum class ClipKind { kFixed, kAdaptive };
constexpr auto choices_of(ClipKind) { return std::array{"fixed", "adaptive"}; }

// How the noise of a round hangs on that of the others.
enum class Correlation { kNone, kTree, kToeplitz, kBanded };
constexpr auto choices_of(Correlation) { return std::array{"none", "tree", "toeplitz", "banded"}; }

struct PrivacyOptions {
  PrivacyKind kind = PrivacyKind::kNone;
  Mechanism mechanism = Mechanism::kDiscreteGaussian;
  double clip = 1;  // C, the largest norm of an update; the first one when it adapts
  ClipKind clip_kind = ClipKind::kFixed;
  double quantile = 0.5;   // gamma, of the clients' norms, which the clip follows
  double clip_rate = 0.2;  // eta_C
  double count_noise = 0;  // sigma_b; 0: the expected participants / 20
  double noise = 1;        // z = sigma / C; below 0: the least that meets epsilon
  double epsilon = 0;      // to meet
  double delta = 1e-5;
  Adjacency adjacency = Adjacency::kZeroOut;
  int64_t step_exponent = kAutoStep;  // e, of the step 2^e; kAutoStep: by the noise
  int64_t seed = 0;                   // of the noise; 0: run.seed; below 0: of the system
  Correlation correlation = Correlation::kNone;
  int64_t bands = 8;           // of kBanded
  int64_t separation = 0;      // rounds between two of a client's; 0: the sampler's
  int64_t participations = 0;  // of a client at most; 0: the sampler's
  AccountantKind accountant = AccountantKind::kRdp;
  bool audit = false;      // also print what is not private
  double max_epsilon = 0;  // stop before the round that would exceed it; 0: no limit

  static constexpr int64_t kAutoStep = 1;

  bool is_on() const { return kind != PrivacyKind::kNone; }
};

}  // namespace hanse
