// Sinks that keep the updates of a round until the rule has weighed them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "federated/host_sink.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/row_part.hpp"
#include "hanse/sums/gram.hpp"

namespace hanse {

// Weighs updates by their inner products; the sum is that of the updates.
class KeptSink : public HostSink, private KeptUpdates {
 public:
  KeptSink(const RunnerParts& parts, const FederatedSettings& settings, int64_t second,
           SharedRows& rows);

  std::vector<StateBlock> state_blocks() const override { return blocks_; }
  KeptUpdates* kept() override { return this; }
  void take(const TrainedClient& one, const TakenNote& note) override;
  void finish(const TakenNote&) override {}

 protected:
  struct Kept {
    int64_t position;        // in the draw
    std::span<float> state;  // the client's blocks
  };

  // What the rule weighs an update by: the client's rate, or what the sink finds of it.
  virtual double statistic(const TrainedClient& one, std::span<const float> /*update*/) const {
    return one.outcome.rate;
  }
  // Adds all kept updates to the sum, as combine() does.
  virtual int64_t add(std::span<const double> coefficients, int64_t k);
  // Brings the client's blocks up to date with its update.
  virtual void remember(std::span<const float> update, std::span<float> state) const;

  std::span<const Kept> taken() const { return kept_; }
  std::span<const float> update(std::size_t i) const { return updates_[i]; }

 private:
  std::vector<double> gram(int64_t k, std::span<const int64_t> absent,
                           ClientStateStore* states) override;
  void add_row(OwnedRow row) override { further_.push_back(row); }
  std::vector<OwnedRow> rows() const override;
  bool add_entries(int64_t begin, std::span<const double> values) override;
  int64_t combine(std::span<const double> coefficients, int64_t k) override;
  void drop() override;

  FoldResult keep(bool is_update);

  std::vector<RowPart> layers_;  // the parts of a row that are weighed apart
  std::vector<StateBlock> blocks_;
  GramExchange exchange_;
  std::vector<AlignedFloats> updates_;  // [P] each; the first kept_.size() are in use
  std::vector<Kept> kept_;
  std::vector<OwnedRow> further_;  // of absent clients, and add_row()'s
};

// Blocks of a row that stay in the cache.
inline constexpr int64_t kSinkBlock = 4096;

}  // namespace hanse
