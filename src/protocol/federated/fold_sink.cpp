// The sink that adds updates as they come.
#include <algorithm>
#include <array>
#include <utility>

#include "federated/host_sink.hpp"
#include "hanse/base/simulated_time.hpp"
#include "hanse/protocol/update_stage.hpp"

namespace hanse {

namespace {

// Stages and directions change rows one at a time.
std::size_t rows_at_once(const RunnerParts& parts, int64_t second) {
  const bool alone = !parts.stages.updates.empty() || parts.update.sends_direction();
  return alone ? 1 : folded_at_once(parts.model.n_params(), second);
}

// Clients train in rows by turns, and their updates wait there until all rows are full: they are
// added to the sum together.
class FoldSink final : public HostSink {
 public:
  FoldSink(const RunnerParts& parts, const FederatedSettings& settings, int64_t second,
           SharedRows& rows)
      : HostSink(parts, settings, second, rows), at_once_(rows_at_once(parts, second)) {
    while (rows_.training.size() < at_once_) rows_.training.emplace_back(sent_.size);
  }

  AlignedFloats& row() override { return rows_.training[waits_]; }

  void take(const TrainedClient& one, const TakenNote& note) override {
    waiting_[waits_++] = one;
    if (waits_ == at_once_) return finish(note);
    if (waits_ < starts_) return;
    starts_ = waits_ + 1;
    set_row(origin_);
  }

  void finish(const TakenNote& note) override {
    const DeclaredTime part_of_training;
    const std::size_t count = std::exchange(waits_, 0);
    if (count == 0) return;
    const double start_s = clock_.now_s();
    // Buffers are in the sum, but not in the norm that rules learn from.
    const auto buffers = fold(count, sent_.trained, sent_.size);
    auto folded = fold(count, 0, sent_.trained);
    const bool are_updates = waiting_[0].is_update;
    for (std::size_t r = 0; are_updates && r < count; ++r) {
      std::copy(origin_.begin(), origin_.end(), rows_.training[r].begin());
    }
    const double share_s = (clock_.now_s() - start_s) / static_cast<double>(count);
    for (std::size_t r = 0; r < count; ++r) {
      folded[r].in_range = folded[r].in_range && buffers[r].in_range && waiting_[r].in_range;
      note(waiting_[r], folded[r], share_s);
    }
  }

 private:
  std::array<FoldResult, UpdateSum::kTogether> fold(std::size_t count, std::size_t begin,
                                                    std::size_t end) {
    std::array<UpdateSum::WeightedRow, UpdateSum::kTogether> parts;
    for (std::size_t r = 0; r < count; ++r) {
      parts[r] = {std::span(rows_.training[r]).subspan(begin, end - begin),
                  waiting_[r].coefficient};
    }
    const auto origin =
        waiting_[0].is_update ? std::span<const float>() : origin_.subspan(begin, end - begin);
    return sum_.fold(std::span(parts).first(count), origin, static_cast<int64_t>(begin));
  }

  void restart() override {
    waits_ = 0;
    starts_ = 1;
    set_row(origin_);
  }

  std::size_t at_once_;
  std::size_t starts_ = 0;  // first rows that were the origin in this run, and are when free
  std::size_t waits_ = 0;   // first rows that wait
  std::array<TrainedClient, UpdateSum::kTogether> waiting_;
};

}  // namespace

std::unique_ptr<HostSink> make_fold_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows) {
  return std::make_unique<FoldSink>(parts, settings, second, rows);
}

}  // namespace hanse
