// What the ranks find out in a round, on its way to rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "federated/round_context.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// A number that another rank knows: a maximum merges what the ranks know.
inline constexpr double kElsewhere = -std::numeric_limits<double>::infinity();

// Brings what the ranks know of `numbers` to rank 0, and with it the bytes that each rank has sent
// in the round so far, of which rank 0 gets the others' sum. One message. Collective, as many
// numbers on every rank.
int64_t bring(Communicator& comm, std::vector<double>& numbers, int64_t own_bytes);

// What the ranks report to rank 0 of a round: an entry a participant, in the plan's order, and each
// rank's own numbers.
class Findings {
 public:
  // A participant's numbers: the mean loss of its mini-batches; |theta_i - theta|^2; its rate or
  // what its sink found, where the rule weighs by that; its seconds; and, where the sampler
  // needs them, the sum of the squared losses of the samples it trained, and their number.
  enum Field { kLoss, kSquaredNorm, kStatistic, kSeconds, kFields, kSquares = kFields, kSamples };
  static constexpr int64_t fields(bool squares) { return squares ? kFields + 2 : kFields; }
  // What a rank reports: seconds of the round, and 1 where it was asked to stop or has failed.
  enum RankField { kTrainSeconds, kCommSeconds, kWaitSeconds, kStop, kFailed, kRankFields };

  // `rejects`: AggregatorNeeds's.
  explicit Findings(std::size_t participants, bool squares = false, bool rejects = false)
      : rejects_(rejects),
        fields_(static_cast<std::size_t>(fields(squares))),
        table_(participants * fields_ + kRankFields, kElsewhere) {}

  bool rejects() const { return rejects_; }
  // Is the participant's update not finite, so that the rule has left it out?
  bool is_rejected(std::size_t entry) const {
    return of(entry, kSquaredNorm) == std::numeric_limits<double>::infinity();
  }
  bool has_squares() const { return fields_ > kFields; }
  double& of(std::size_t entry, Field field) { return table_[entry * fields_ + field]; }
  double of(std::size_t entry, Field field) const { return table_[entry * fields_ + field]; }
  double& rank(RankField field) { return table_[table_.size() - kRankFields + field]; }
  // Did the participant train? If not, time was up.
  bool trained(std::size_t entry) const { return of(entry, kLoss) != kElsewhere; }

  std::vector<double>& table() { return table_; }

 private:
  bool rejects_;
  std::size_t fields_;
  std::vector<double> table_;
};

// The squared norm of what a client would report. Throws TrainingError unless all is finite.
double checked_squared_step(const RoundContext& round, int64_t client, const ClientOutcome& outcome,
                            double squared);

// Enters a participant's training into `findings`. Throws TrainingError unless its update, which is
// in range below `limit`, can enter the sum; where the rule rejects such updates, what is not
// finite is told of as infinity.
void note_training(const RoundContext& round, int64_t client, std::size_t entry,
                   const ClientOutcome& outcome, const FoldResult& folded, double seconds,
                   double limit, Findings& findings);

}  // namespace hanse
