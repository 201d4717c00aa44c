// The OSMD samplers as the paper prints them, slow and obvious.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/rules/sampling/learning.hpp"

namespace hanse {

using Distribution = std::vector<long double>;

// Algorithm 2: the projection of p~ = exp(log_p) on {p >= alpha/M, sum 1}, by sorting. O(M log M).
Distribution project_by_sorting(const std::vector<long double>& log_p, double alpha);

// Algorithms 1, 5 and 6 of Zhao et al. 2025 with all M probabilities of all experts, in long
// double. Cost a round: O(E M log M).
class OsmdReference {
 public:
  OsmdReference(const LearningOptions& options, int64_t clients, int64_t per_round,
                std::span<const double> initial = {});

  // p of the next draw [M], were all available.
  Distribution p() const;
  // The same for a round in which only these are.
  Distribution q(const std::vector<bool>& available) const;
  Distribution theta() const;  // [E]
  // eq. 6 at q = p of these draws, repeats included.
  long double loss(const std::vector<int64_t>& draws, const std::vector<double>& a,
                   const std::vector<bool>& available) const;

  void set_bound(double a_max) { a_max_ = a_max; }
  // What a round's draws teach; a [M].
  void observe(const std::vector<int64_t>& draws, const std::vector<double>& a,
               const std::vector<bool>& available);

  // The largest exponent of step 3 so far.
  long double highest_exponent() const { return highest_exponent_; }

 private:
  void begin_block(int64_t block, const Distribution& initial);
  void set_rates();
  long double learn(std::size_t e, const std::vector<int64_t>& draws, const std::vector<double>& a,
                    const Distribution& q);
  void weigh(const Distribution& losses);

  LearningOptions options_;
  int64_t clients_;
  int64_t per_round_;
  long double a_max_;
  int64_t block_ = 1;                  // b of Algorithm 6
  int64_t horizon_;                    // T of the block
  int64_t round_ = 1;                  // t in the block
  std::vector<Distribution> experts_;  // [E, M]
  Distribution log_theta_;             // [E]
  Distribution eta_;                   // [E]
  long double gamma_ = 0;
  long double highest_exponent_ = 0;
};

}  // namespace hanse
