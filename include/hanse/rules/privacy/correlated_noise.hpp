// What noise that is correlated over the rounds of a run costs: all its rounds are one release.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/options.hpp"

namespace hanse {

// Throws InvalidArgument where no guarantee is known for noise that is correlated as the options
// say, over so many rounds of these terms.
void check_correlation(const PrivacyOptions& options, const PrivacyTerms& terms, int64_t rounds);

class CorrelatedNoise {
 public:
  // For rounds 1 to `rounds`, of any options.correlation. REQUIRES: check_correlation() passes.
  CorrelatedNoise(const PrivacyOptions& options, const PrivacyTerms& terms, int64_t rounds);

  bool is_on() const { return options_.correlation != Correlation::kNone; }
  // The coefficients in units of 2^-kCorrelationBits; empty without bands.
  const std::vector<int64_t>& numerators() const { return numerators_; }
  // The rounds that a tree is over; 0: no tree.
  int64_t tree_rounds() const;
  // By what `rounds` rounds move the sum of squares of what is released, in squared clips: 1 a
  // participation without correlation.
  double sensitivity_squared(int64_t rounds) const;
  // The most of the released sums, of P coordinates each, that a client moves in them: of a tree
  // its nodes, with bands as many as reach beyond each of its rounds.
  int64_t moved_sums(int64_t rounds) const;

  // What `rounds` rounds with this noise cost together: one release with all that a client moves in
  // them. Without `with_pld` the privacy loss distribution is not asked, which takes the most time.
  PrivacyCost cost(const RoundNoise& noise, int64_t rounds, bool with_pld = true) const;
  // By options.accountant. Throws InvalidArgument where it does not apply.
  double epsilon(const RoundNoise& noise, int64_t rounds) const;

 private:
  int64_t times_in(int64_t rounds) const;  // a client is, at most

  PrivacyOptions options_;
  PrivacyTerms terms_;
  std::vector<int64_t> numerators_;
};

}  // namespace hanse
