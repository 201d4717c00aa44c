// The privacy of a run's rounds: what turns updates into integers of a noised sum, and the sum into
// a step. An object a rank; all ranks go through the same rounds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/cipher.hpp"
#include "hanse/base/columns.hpp"
#include "hanse/base/row_part.hpp"
#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/round_part.hpp"
#include "hanse/rules/privacy/private_rounds.hpp"
#include "hanse/rules/privacy/secret.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

class CorrelatedSums;

struct PrivacySetup {
  PrivacyOptions options;
  PrivacyTerms terms;
  int64_t rounds = 1;                            // that are planned
  CipherKey key = {};                            // of the first round; the same on all ranks
  std::function<double(int64_t client)> weight;  // w_i in [0, 1] of an update
  double mean_weight = 1;                        // of all clients, which is public
  std::vector<RowPart> kept = {};                // entries that clients keep: nobody sends them
};

// Central noise stands in the sum before the first update does,
// so that no variable ever has the plain total: each rank that trains clients draws that of its
// blocks of coordinates. Where others train, rank 0 draws none: the sum reaches it with all of it.
// Distributed noise has a share for each of the expected participants, numbered from 0. The
// participant at a place of the draw adds the share of this number; where more come than are
// expected, the later ones add none, and where fewer come, the ranks fill up what is missing. So
// the noise of a round is the same whoever came. Entries that clients keep have no noise.
class PrivateTraining final : public RoundPart {
 public:
  // `comm` must outlive it. Memory: P int64; with noise correlated over rounds, P int64 for each of
  // its bands, and on rank 0 as many float64. Throws as PrivateRounds; IoError where they do
  // not fit into memory.
  PrivateTraining(PrivacySetup setup, Communicator& comm, int64_t n_params);
  ~PrivateTraining() override;

  void joins(int64_t worker, int64_t workers) override;
  // Adds this rank's noise to its sum, still zero. Cost: Noise::add for P / workers entries.
  void opens(int64_t round, UpdateSum& sum) override;
  // Adds the update [P] of the participant at this place of the draw, clipped and rounded to the
  // lattice, and its share of the noise, where it adds one. An update that is not finite counts as
  // zero. Returns the norm before the clip, 0 for such an update. Cost: clip_to_lattice().
  FoldResult take(const SummedUpdate& one, UpdateSum& sum) override;
  bool takes_updates() const override { return true; }
  void closes(UpdateSum& sum) override;
  // Writes the mean of the updates, with its noise.
  bool reads(UpdateSum& sum, std::span<float> mean) override;
  // Pays for the round, and overwrites the keys that no further one needs.
  void finishes() override;
  // A sum has noise though nobody came.
  bool steps_alone() const override { return true; }

  std::string end() const override;
  // The words of the present round's draw, of the secret.
  CipherStream draw_words() const;
  void add_columns(Columns& columns) const override;
  const char* name() const override { return "privacy"; }

  // Rows of P integers that rank 0 keeps beside the sum; other ranks may keep fewer.
  int64_t kept_rows() const { return 1 + 2 * std::ssize(rounds_.correlated().numerators()); }

  void collect() override;
  void share() override;

 private:
  // Whole numbers of a round: this rank's, and when it is closed those of all ranks.
  struct Counts {
    int64_t within = 0;  // the noised sum of AdaptiveClip::bit()
    int64_t updates = 0;
    int64_t zeroed = 0;   // not finite, or their audit failed: nothing of them counts
    int64_t clipped = 0;  // with privacy.audit
  };

  // Adds the noise of a worker's blocks, this rank's or another's, to the entries [P] that clients
  // send.
  void add_own(const CipherKey& key, std::span<int64_t> entries) const;
  void add(const CipherKey& key, int64_t worker, int64_t workers, std::span<int64_t> entries) const;
  void add_tree(std::span<int64_t> entries);
  void fill_up(std::span<int64_t> entries) const;
  std::span<const float> audited(const SummedUpdate& one);
  void forget();
  void require_limit() const;
  double divisor() const;
  void note_signal(std::span<const float> mean);
  Metrics numbers() const;
  void visit(StateFields& fields) override;

  PrivacySetup setup_;
  Communicator& comm_;
  int64_t worker_, workers_;  // RoundPart::joins()
  PrivateRounds rounds_;
  RoundSecret secret_;
  std::vector<CipherKey> nodes_;                // of a tree, that are to be taken away later
  std::vector<RowPart> sent_;                   // entries of an update
  PrivateRound round_;                          // in progress, or the last one
  std::unique_ptr<CorrelatedSums> correlated_;  // null: each round's noise is its own
  std::vector<int64_t> integers_;               // [P] of an update
  std::vector<float> canary_;                   // [P] of an audit; else empty
  Counts counts_;
  Counts last_;            // of the last round
  double signal_ = 0;      // estimated length of the sum without noise over that of the noise
  double epsilon_ = 0;     // rank 0: of the finished rounds
  bool has_told_ = false;  // of updates that count as zero
};

}  // namespace hanse
