// Sources of words and of uniform integers for tests of noise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hanse/base/uniform.hpp"

namespace hanse {

// splitmix64 (Steele et al. 2014), which counts its words.
struct SplitMix {
  uint64_t state = 1;
  int64_t used = 0;

  uint64_t next() {
    ++used;
    state += 0x9E3779B97F4A7C15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
};

// Plays every outcome of a function of uniform integers, with its probability: each call of below()
// is a fork. Paths less likely than `cut` are given up.
class EveryOutcome {
 public:
  explicit EveryOutcome(double cut) : cut_(cut) {}

  struct TooRare {};

  uint64_t below(uint64_t n) {
    if (depth_ == path_.size()) path_.push_back({0, n});
    const Fork& fork = path_[depth_++];
    probability_ /= static_cast<double>(n);
    if (probability_ < cut_) throw TooRare{};
    return fork.taken;
  }
  Uint128 below(Uint128 n) { return below(static_cast<uint64_t>(n)); }

  // Calls see(play(*this), probability) for each path; the probability of those given up.
  template <class Play, class See>
  double each(Play play, See see) {
    double given_up = 0;
    do {
      depth_ = 0;
      probability_ = 1;
      try {
        const auto result = play(*this);
        see(result, probability_);
      } catch (const TooRare&) {
        given_up += probability_;
      }
      path_.resize(depth_);
    } while (advance());
    return given_up;
  }

 private:
  struct Fork {
    uint64_t taken;
    uint64_t ways;
  };

  bool advance() {
    while (!path_.empty() && path_.back().taken + 1 == path_.back().ways) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().taken;
    return true;
  }

  double cut_;
  std::vector<Fork> path_;
  std::size_t depth_ = 0;
  double probability_ = 1;
};

}  // namespace hanse
