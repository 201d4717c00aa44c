// The privacy of a run's rounds: what turns updates into integers of a noised sum, and the sum into
// a step. An object a rank; all ranks go through the same rounds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/rules/privacy/private_rounds.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

class CorrelatedSums;

struct PrivacySetup {
  PrivacyOptions options;
  PrivacyTerms terms;
  int64_t rounds = 1;                            // that are planned
  uint64_t seed = 1;                             // of the noise; the same on all ranks
  std::function<double(int64_t client)> weight;  // w_i in [0, 1] of an update
  double mean_weight = 1;                        // of all clients, which is public
};

// A round: begin(), take() for each of this rank's participants, close(), the reduction of the sum
// to rank 0, read() there, finish(). The noise stands in the sum before the first update does, so
// that no variable ever has the plain total: each rank draws that of its blocks of coordinates.
class PrivateTraining final : public Stateful {
 public:
  // `comm` must outlive it. Memory: P int64; with noise correlated over rounds, P int64 for each of
  // its bands, and on rank 0 as many float64. Throws as PrivateRounds; IoError where they do
  // not fit into memory.
  PrivateTraining(PrivacySetup setup, Communicator& comm, int64_t n_params);
  ~PrivateTraining() override;

  // Adds this rank's noise to its sum, still zero. Cost: Noise::add for P / ranks entries.
  void begin(UpdateSum& sum);
  // Adds the update [P], clipped and rounded to the lattice, and the participant's share of the
  // noise, where it adds one. Returns the norm before the clip. Cost: clip_to_lattice().
  FoldResult take(int64_t client, std::span<const float> update, UpdateSum& sum);
  // All of this rank's updates are in.
  void close(UpdateSum& sum);
  // Rank 0: writes the mean of the updates, with its noise, from the sum over the ranks, and clears
  // that.
  void read(UpdateSum& sum, std::span<float> mean);
  // Pays for the round. Collective.
  void finish();

  // Rank 0: why there may be no further round; empty: there may.
  std::string end() const;
  void add_columns(Columns& columns) const;

  // Rows of P integers that rank 0 keeps beside the sum; other ranks may keep fewer.
  int64_t kept_rows() const { return 1 + 2 * std::ssize(rounds_.numerators()); }

  // Brings what save() needs to rank 0, and what load() found there to the others. Collective.
  void collect();
  void share();

 private:
  // Whole numbers of a round, over all ranks.
  struct Counts {
    int64_t within = 0;  // the noised sum of AdaptiveClip::bit()
    int64_t updates = 0;
    int64_t zeroed = 0;   // their audit failed: nothing of them counts
    int64_t clipped = 0;  // with privacy.audit
  };

  RandomStream noise_stream(int64_t number, int64_t block) const;
  void add_tree(const Noise& noise, std::span<int64_t> entries) const;
  double divisor() const;
  void note_signal(std::span<const float> mean);
  Metrics numbers() const;
  void visit(StateFields& fields) override;

  PrivacySetup setup_;
  Communicator& comm_;
  PrivateRounds rounds_;
  PrivateRound round_;                          // in progress, or the last one
  std::unique_ptr<CorrelatedSums> correlated_;  // null: each round's noise is its own
  std::vector<int64_t> integers_;               // [P] of an update
  Counts counts_;
  Counts last_;         // of the last round
  double signal_ = 0;   // estimated length of the sum without noise over that of the noise
  double epsilon_ = 0;  // rank 0: of the finished rounds
};

}  // namespace hanse
