// The private rounds of a run: the lattice and the noise of each, and what they have cost. They
// need no data: `hanse privacy` plays them alone.
#pragma once

#include <cstdint>

#include "hanse/base/state.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/adaptive_clip.hpp"
#include "hanse/rules/privacy/clipping.hpp"
#include "hanse/rules/privacy/correlated_noise.hpp"
#include "hanse/rules/privacy/options.hpp"

namespace hanse {

// What the participants and the ranks of a round add.
struct PrivateRound {
  double clip = 0;       // C_t that was asked for; an update has lattice.clip() at most
  Lattice lattice;       // of the updates' integers
  int64_t variance = 0;  // of the noise on the sum that counts, in squared steps of the noise; of a
                         // node of the tree
  int64_t share_variance = 0;  // of each of PrivateRounds::shares() draws; of one: the same
  int fraction_bits = 0;       // a step of the noise is 2^-fraction_bits steps of the lattice
  double deviation = 0;        // of all noise (of one node), in units of the parameters
  int64_t count_variance = 0;  // of the noise on the count of updates within the clip; 0: no count
};

class PrivateRounds final : public Stateful {
 public:
  // Rounds 1 to `rounds`; without options.noise the least is found for these. Throws
  // InvalidArgument where the options do not fit together: no theorem covers them, the lattice is
  // too coarse or too fine, the noise is beyond what integers hold, no noise meets epsilon.
  PrivateRounds(const PrivacyOptions& options, const PrivacyTerms& terms, int64_t rounds);

  const PrivacyOptions& options() const { return options_; }
  const PrivacyTerms& terms() const { return terms_; }
  double multiplier() const { return multiplier_; }  // z
  double update_multiplier() const;                  // z', of the updates beside a count
  // Participants of a round, n: public, whoever comes.
  int64_t expected() const;
  // Draws of noise on a round's sum, whoever comes: a share for each of the expected participants,
  // or 1; and those among them whose noise counts, options.honest of them, rounded down.
  int64_t shares() const;
  int64_t honest_shares() const;

  // The next round. Throws InvalidArgument behind the last one of correlated noise.
  PrivateRound next() const;
  // The next round is over, and `noised_count` is the noised sum of AdaptiveClip::bit(). Its cost
  // is paid, and the clip moves.
  void finish(int64_t noised_count = 0);
  // So many rounds like the next are over, in which the clip stays. Cost: that of one.
  void finish_alike(int64_t rounds);
  int64_t finished() const { return finished_; }
  // No round can follow: correlated noise ends with the planned ones.
  bool is_over() const;

  // What the finished rounds have cost, at options.delta, and what they and further ones would.
  PrivacyCost cost() const;
  double epsilon() const;
  double epsilon_after(int64_t further) const;
  // An epsilon that holds after so many further rounds like the next, at least epsilon_after() and
  // cheap enough for every round: losses are composed for numbers of rounds that a thirty-second
  // lies between, on a rough grid. It is at most limit() where epsilon_after() is.
  double epsilon_at_most(int64_t further) const;
  // The epsilon that the run must not exceed: options.max_epsilon, or the one that its noise was
  // found for; 0: none.
  double limit() const;
  // What `rounds` rounds cost a client that takes part in each, against the server of distributed
  // noise: it knows who was drawn and the shares that it adds itself, so that the honest shares of
  // those who came count, here of all that are expected. REQUIRES: none is finished.
  double epsilon_of_server(int64_t rounds) const;

  const CorrelatedNoise& correlated() const { return correlated_; }

  // Makes other ranks' rounds follow rank 0's, which load() set. The accountant is rank 0's alone.
  struct Position {
    int64_t finished, planned;
    double clip;
  };
  Position position() const { return {finished_, planned_, clip_}; }
  void move_to(const Position& position);

 private:
  void visit(StateFields& fields) override;
  void plan();  // what follows from options, terms and the planned rounds
  double found_multiplier() const;
  AdaptiveClip adaptive() const;
  double most_multiplier() const;
  PrivateRound round_at(double clip, double multiplier) const;
  RoundNoise noise_of(const PrivateRound& round) const;
  double epsilon_with(double multiplier, AccountantKind kind) const;

  PrivacyOptions options_;
  PrivacyTerms terms_;
  int64_t planned_ = 0;
  CorrelatedNoise correlated_;
  double multiplier_ = 0;
  double clip_ = 0;
  int64_t finished_ = 0;
  PrivacyAccountant accountant_;
};

}  // namespace hanse
