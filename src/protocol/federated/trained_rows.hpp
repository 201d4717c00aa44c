// The rows that a rank trains its clients in.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "federated/engine.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// A client that has trained.
struct TrainedClient {
  std::size_t entry = 0;   // of the plan
  double coefficient = 0;  // of its update
  ClientOutcome outcome;
  double seconds = 0;
  bool in_range = true;  // what it sends beside its update
};

// Clients train in rows by turns, and their updates wait there until all rows are full: they are
// added to the sum together.
class TrainedRows {
 public:
  // REQUIRES: 1 <= at_once <= UpdateSum::kTogether.
  TrainedRows(const SentRow& sent, std::size_t at_once)
      : sent_(sent), rows_(at_once, AlignedFloats(sent.size)) {}

  // [P] of the client in training; between clients the model. REQUIRES: not full().
  AlignedFloats& row() { return rows_[waits_]; }
  // Begins a round: nothing waits, and row() is the model.
  void start(std::span<const float> model) {
    waits_ = 0;
    starts_ = 1;
    start_again(model);
  }
  // row() is the model, whatever it was.
  void start_again(std::span<const float> model) {
    std::copy(model.begin(), model.end(), row().begin());
  }

  bool full() const { return waits_ == rows_.size(); }
  // row() has the client's update, which waits; unless full(), the next client starts from the
  // model.
  void wait(const TrainedClient& one, std::span<const float> model) {
    waiting_[waits_++] = one;
    if (full() || waits_ < starts_) return;
    starts_ = waits_ + 1;
    start_again(model);
  }
  // Adds all that wait to `sum` and calls note(client, result, seconds of its share). `is_update`:
  // rows hold updates themselves. The next clients start from the model.
  template <class Clock, class Note>
  void fold(UpdateSum& sum, std::span<const float> model, bool is_update, Clock clock, Note note) {
    const std::size_t count = std::exchange(waits_, 0);
    if (count == 0) return;
    const double start_s = clock();
    // Buffers are in the sum, but not in the norm that rules learn from.
    const auto buffers = fold_part(sum, model, is_update, count, sent_.trained, sent_.size);
    auto folded = fold_part(sum, model, is_update, count, 0, sent_.trained);
    for (std::size_t r = 0; is_update && r < count; ++r) {
      std::copy(model.begin(), model.end(), rows_[r].begin());
    }
    const double share_s = (clock() - start_s) / static_cast<double>(count);
    for (std::size_t r = 0; r < count; ++r) {
      folded[r].in_range = folded[r].in_range && buffers[r].in_range && waiting_[r].in_range;
      note(waiting_[r], folded[r], share_s);
    }
  }

 private:
  std::array<FoldResult, UpdateSum::kTogether> fold_part(UpdateSum& sum,
                                                         std::span<const float> model,
                                                         bool is_update, std::size_t count,
                                                         std::size_t begin, std::size_t end) {
    std::array<UpdateSum::WeightedRow, UpdateSum::kTogether> parts;
    for (std::size_t r = 0; r < count; ++r) {
      parts[r] = {std::span(rows_[r]).subspan(begin, end - begin), waiting_[r].coefficient};
    }
    const auto origin = is_update ? std::span<const float>() : model.subspan(begin, end - begin);
    return sum.fold(std::span(parts).first(count), origin, static_cast<int64_t>(begin));
  }

  SentRow sent_;
  std::vector<AlignedFloats> rows_;
  std::size_t starts_ = 0;  // first rows that were the model in this round, and are when free
  std::size_t waits_ = 0;   // first rows that wait
  std::array<TrainedClient, UpdateSum::kTogether> waiting_;
};

}  // namespace hanse
