// Sinks of the host: where its clients train one after another, and their sum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "federated/update_sink.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/client/local_update.hpp"

namespace hanse {

// A client that has trained.
struct TrainedClient {
  std::size_t entry = 0;  // of the plan
  int64_t position = 0;   // in the draw
  int64_t client = 0;
  double coefficient = 0;  // of its update, where the rule has weighed it already
  ClientOutcome outcome;
  double seconds = 0;
  bool in_range = true;         // what it sends beside its update
  bool is_update = false;       // its row is the update itself, and not the model behind it
  std::span<float> state = {};  // the sink's blocks of it
};

// Hears of each client whose update has been taken, and how long adding it took.
using TakenNote = std::function<void(const TrainedClient&, const FoldResult&, double seconds)>;

// Rows that the sinks of a runner share: between runs they are anybody's.
struct SharedRows {
  std::vector<AlignedFloats> training;  // [P] each, one or as many as are added at once
  std::vector<float> step;              // [rows of the sum, P] rank 0
};

class HostSink : public UpdateSink {
 public:
  // Collective over parts.comm. `second`: values of the second row. `rows` must outlive it.
  HostSink(const RunnerParts& parts, const FederatedSettings& settings, int64_t second,
           SharedRows& rows);

  // Begins a run of clients, whose updates belong to the sum of that round: nothing waits, and
  // row() is `origin` [P].
  void start(int64_t round, std::span<const float> origin);
  // The next clients start from `origin`, which must stay until they have been taken.
  void go_on_from(std::span<const float> origin, const TakenNote& note);
  // [P] where the next client trains.
  virtual AlignedFloats& row() { return rows_.training.front(); }
  // Makes row() `values` [P], whatever it was.
  void set_row(std::span<const float> values) {
    std::copy(values.begin(), values.end(), row().begin());
  }
  // Takes what row() holds; it is the origin afterwards. The note may come with a later client.
  virtual void take(const TrainedClient& one, const TakenNote& note) = 0;
  // Adds what waits.
  virtual void finish(const TakenNote& note) = 0;

  void scale(double factor) override { sum_.scale(factor); }
  ExchangeReport hand_over(std::span<float> model, const SumStep& step) override;
  double limit() const { return sum_.limit(); }
  // The sum alone moves: the runner brings the stepped model to the ranks.
  void leave_model() { overlaps_ = false; }

 protected:
  // Makes row() the origin. Nothing waits.
  virtual void restart() { set_row(origin_); }
  // Rank 0: writes the rows of the sum, which it clears, and makes the update of the first one.
  virtual void read_sum(std::span<float> rows) { sum_.take(rows); }

  SentRow sent_;
  SharedRows& rows_;
  std::span<const float> origin_ = {};  // [P] of the clients in training
  const Clock& clock_;
  UpdateSum sum_;

 private:
  Communicator& comm_;
  std::vector<RoundPart*> acting_;
  int64_t round_ = 0;  // round of the sum; 0: nothing has begun
  bool overlaps_;      // the model goes back part by part as its sum comes
};

// Adds updates as they come; the rule has weighed them before.
std::unique_ptr<HostSink> make_fold_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows);
// Keeps updates until they are weighed by their inner products. Memory: a row for each of this
// rank's participants in its busiest round, and what GramExchange takes.
std::unique_ptr<HostSink> make_kept_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows);
// Keeps updates until they are weighed by their distances. The sum is [2, P]: the entries that
// count (SignMemory), and the weights with which they count, by which rank 0 divides. Memory as
// above.
std::unique_ptr<HostSink> make_masked_sink(const RunnerParts& parts,
                                           const FederatedSettings& settings, int64_t second,
                                           SharedRows& rows);
// Leaves it to `taker` to add updates, in the place of coefficients.
std::unique_ptr<HostSink> make_part_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows, RoundPart& taker);
// Makes the sink that the parts ask for.
std::unique_ptr<HostSink> make_host_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows);

}  // namespace hanse
