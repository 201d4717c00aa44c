// The private rounds of a run: the lattice and the noise of each, and what they have cost. Without
// data: `hanse privacy` plays them alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/adaptive_clip.hpp"
#include "hanse/rules/privacy/clipping.hpp"
#include "hanse/rules/privacy/options.hpp"

namespace hanse {

// What a round's participants and ranks add.
struct PrivateRound {
  double clip = 0;        // C_t, that was asked for; updates have at most lattice.clip()
  Lattice lattice;        // of the updates' integers
  int64_t variance = 0;   // of the noise on the sum, or of a participant's share of it, or of a
                          // node of the tree; in squared steps of the noise
  int fraction_bits = 0;  // the step of the noise is 2^-fraction_bits steps of the lattice
  double deviation = 0;   // of the noise on the sum, in units of the parameters
  int64_t count_variance = 0;  // of the noise on the count of those within the clip; 0: none
};

struct PrivacyCost {
  EpsilonBound rdp;
  std::optional<double> zcdp, pld;  // where they apply

  // Throws InvalidArgument where the accountant does not apply.
  double epsilon(AccountantKind kind) const;
};

class PrivateRounds final : public Stateful {
 public:
  // Rounds 1 to `rounds`; options.noise below 0 is found for these. Throws InvalidArgument where
  // the options do not fit together: no theorem covers them, a lattice that is too coarse or too
  // fine, noise beyond what the integers hold.
  PrivateRounds(const PrivacyOptions& options, const PrivacyTerms& terms, int64_t rounds);

  const PrivacyTerms& terms() const { return terms_; }
  double multiplier() const { return multiplier_; }  // z
  double expected() const;                           // participants of a round, n

  // The next round. `participants` of it add shares of distributed noise.
  PrivateRound next() const;
  // The round is over: `participants` added their shares, if noise is distributed. Its cost is
  // paid; the clip follows the noised sum of bits, when it adapts.
  void finish(int64_t participants, int64_t noised_bits = 0);
  int64_t finished() const { return finished_; }

  PrivacyCost cost() const;     // of the finished rounds
  double next_epsilon() const;  // by options.accountant, of these and the next one

  // Coefficients of noise that is correlated over rounds, in units of 2^-kCorrelationBits; {1} in
  // units of 1 where it is not.
  const std::vector<int64_t>& numerators() const { return numerators_; }

 private:
  void visit(StateFields& fields) override;

  PrivacyOptions options_;
  PrivacyTerms terms_;
  double multiplier_ = 0;
  std::vector<int64_t> numerators_;
  double clip_ = 0;
  int64_t finished_ = 0;
  PrivacyAccountant accountant_;
};

}  // namespace hanse
