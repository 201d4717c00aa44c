// Options of differential privacy: [privacy] of a job.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/noise.hpp"

namespace hanse {

// Whose contribution an observer can hardly tell: all of a client, or a sample of it.
enum class PrivacyUnit { kClient, kSample };
constexpr auto choices_of(PrivacyUnit) { return std::array{"client", "sample"}; }

enum class ClipKind { kFixed, kAdaptive };
constexpr auto choices_of(ClipKind) { return std::array{"fixed", "adaptive"}; }

// How the noise of a round hangs on that of the others.
enum class Correlation { kNone, kTree, kToeplitz, kBanded };
constexpr auto choices_of(Correlation) { return std::array{"none", "tree", "toeplitz", "banded"}; }

// The step of the lattice of updates and noise.
struct LatticeStep {
  std::optional<int> exponent;  // e, of the step 2^e; none: by the noise

  // "auto", "2^-20", or a number that is a power of two. Throws InvalidArgument: it is none, or
  // outside [2^-44, 1].
  static LatticeStep parse(std::string_view text);
  std::string text() const;  // parse(text()) is *this
};

// Where the noise is drawn from.
struct NoiseSeed {
  int64_t number = 0;      // beside run.seed; 0: run.seed alone
  bool of_system = false;  // the system's random numbers: no run is like another

  // "auto", a number from 1 on, or "system". Throws InvalidArgument.
  static NoiseSeed parse(std::string_view text);
  std::string text() const;  // parse(text()) is *this
};

// A client that does not train, for an audit: its update is the longest that the clip allows in the
// direction of the last parameter that clients send, times `sign`; 0: zeros.
struct Canary {
  int64_t client = 0;  // -1: nobody
  double sign = 1;
  std::vector<int64_t>* taken = nullptr;  // borrowed: the rounds of each client are counted here
};

struct PrivacyOptions {
  // none | central | distributed: who adds the noise: one draw on the sum, or a share with each
  // participant.
  std::string kind = "none";
  PrivacyUnit unit = PrivacyUnit::kClient;
  Mechanism mechanism = Mechanism::kDiscreteGaussian;
  double clip = 1;  // C, the largest norm of an update, or of a sample's gradient; the first one
                    // when it adapts
  ClipKind clip_kind = ClipKind::kFixed;
  double quantile = 0.5;            // gamma, of the clients' norms, which the clip follows
  double clip_rate = 0.2;           // eta_C
  double count_noise = 0;           // sigma_b; 0: the expected participants / 20
  std::optional<double> noise = 1;  // z = sigma / C; none: the least that meets epsilon
  double epsilon = 0;               // to meet
  double delta = 1e-5;
  Adjacency adjacency = Adjacency::kZeroOut;
  LatticeStep step;
  NoiseSeed seed;
  Correlation correlation = Correlation::kNone;
  int64_t bands = 8;           // of kBanded
  int64_t separation = 0;      // rounds between two of a client's; 0: the sampler's
  int64_t participations = 0;  // of a client at most; 0: the sampler's
  AccountantKind accountant = AccountantKind::kAuto;
  bool audit = false;      // also print what is not private
  double max_epsilon = 0;  // stop before the round that would exceed it; 0: no limit
  // The part of the expected participants whose shares of distributed noise count: each share is
  // so large that theirs make the noise, whatever the others do with what they know of their own.
  double honest = 1;
  std::optional<Canary> canary;  // no key: hanse audit sets it

  bool is_on() const { return kind != "none"; }
  bool of_clients() const { return is_on() && unit == PrivacyUnit::kClient; }
  bool of_samples() const { return is_on() && unit == PrivacyUnit::kSample; }
  bool is_distributed() const { return kind == "distributed"; }
  bool has_secret() const { return is_on() && seed.of_system; }  // that nobody knows
};

}  // namespace hanse
