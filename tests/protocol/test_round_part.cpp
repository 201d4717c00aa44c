// Parts that act on the sum of each round.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/base/wrapping.hpp"
#include "hanse/protocol/round_part.hpp"
#include "hanse/protocol/sum_masks.hpp"
#include "protocol/tiny_training.hpp"

namespace hanse {
namespace {

// 64 random bits for each entry, of a round and a rank.
int64_t mask(int64_t round, int64_t rank, int64_t entry) {
  RandomStream stream(7, Purpose::kData, static_cast<uint64_t>(round), static_cast<uint64_t>(rank));
  stream.seek(static_cast<uint64_t>(entry));
  return static_cast<int64_t>(stream.next());
}

// Masks a rank's sum from its start, masks it again before it leaves the rank, and takes all ranks'
// masks away from their sum: what is between them holds no update in the clear.
class Masks final : public RoundPart {
 public:
  Masks(int64_t rank, int64_t ranks) : rank_(rank), ranks_(ranks) {}

  void opens(int64_t round, UpdateSum& sum) override {
    round_ = round;
    for (const int64_t integer : sum.integers(0, sum.size())) EXPECT_EQ(integer, 0);
    add(sum, rank_, 1);
  }
  void closes(UpdateSum& sum) override { add(sum, rank_, 2); }
  bool reads(UpdateSum& sum, std::span<float>) override {
    for (int64_t rank = 0; rank < ranks_; ++rank) add(sum, rank, -3);
    return false;
  }

 private:
  // sum += times * mask
  void add(UpdateSum& sum, int64_t rank, int64_t times) const {
    int64_t entry = 0;
    for (int64_t& integer : sum.integers(0, sum.size())) {
      const auto one = static_cast<uint64_t>(mask(round_, rank, entry++));
      integer = wrapping_sum(integer, static_cast<int64_t>(one * static_cast<uint64_t>(times)));
    }
  }
  int64_t rank_, ranks_;
  int64_t round_ = 0;
};

std::unique_ptr<RoundPart> make_masks(Communicator& comm) {
  return std::make_unique<Masks>(comm.rank(), comm.size());
}

TEST(RoundPart, MasksThatCancelLeaveTheBits) {
  for (const bool by_losses : {false, true}) {
    TinyJob job{.by_losses = by_losses};
    const auto expected = train_threads(1, job, 6);
    job.round_part = make_masks;
    for (int ranks = 1; ranks <= 4; ++ranks) EXPECT_EQ(train_threads(ranks, job, 6), expected);
  }
}

// Looks at its rank's part of the sum before and behind the masks between ranks.
class Looked final : public RoundPart {
 public:
  explicit Looked(Communicator& comm) : comm_(comm), masks_(make_sum_masks(comm)) {}

  void opens(int64_t round, UpdateSum& sum) override { masks_->opens(round, sum); }
  void closes(UpdateSum& sum) override {
    const auto entries = sum.integers(0, sum.size());
    const std::vector<int64_t> plain(entries.begin(), entries.end());
    masks_->closes(sum);
    std::vector<int64_t> masks;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      masks.push_back(wrapping_sum(entries[i], -plain[i]));
    }
    for (const int64_t mask : masks) EXPECT_EQ(mask == 0, comm_.size() == 1);
    EXPECT_TRUE(comm_.size() == 1 || masks != last_) << "the masks of the round before";
    last_ = masks;
    comm_.allreduce(std::span(masks), ReduceOp::kSum);
    EXPECT_EQ(masks, std::vector<int64_t>(masks.size())) << "of all ranks";
  }

 private:
  Communicator& comm_;
  std::unique_ptr<RoundPart> masks_;
  std::vector<int64_t> last_;
};

TEST(SumMasks, HideEveryEntryOfARankAndCancelInTheSum) {
  TinyJob job;
  const auto expected = train_threads(1, job, 3);
  job.round_part = [](Communicator& comm) { return std::make_unique<Looked>(comm); };
  for (const int ranks : {1, 2, 3, 4, 7}) EXPECT_EQ(train_threads(ranks, job, 3), expected);
}

// Adds an integer to every entry of rank 0's sum in one round.
class Shift final : public RoundPart {
 public:
  explicit Shift(Communicator& comm) : adds_(comm.rank() == 0) {}

  void opens(int64_t round, UpdateSum& sum) override {
    if (!adds_ || round != 2) return;
    for (int64_t& integer : sum.integers(0, sum.size())) integer += int64_t{1} << 43;
  }

 private:
  bool adds_;
};

// What is added stays in the sum: half a unit of the model in a round.
TEST(RoundPart, WhatIsAddedMovesTheModel) {
  TinyJob job{.sampler = "full"};
  const auto plain = train_threads(2, job, 2);
  job.round_part = [](Communicator& comm) { return std::make_unique<Shift>(comm); };
  const auto moved = train_threads(2, job, 2);
  ASSERT_EQ(moved.size(), plain.size());
  for (std::size_t i = 0; i < moved.size(); ++i) EXPECT_NEAR(moved[i] - plain[i], 0.5, 1e-6);
}

// The first entries count twice, those behind them not at all and the last ones once; of the middle
// the server's optimizer knows nothing.
class Weigher final : public RoundPart {
 public:
  bool takes_updates() const override { return true; }
  std::vector<WeighedPart> parts_of(const SummedUpdate& one) override {
    return {{{0, kTwice}, 2 * one.coefficient}, {{kStands, kParams}, one.coefficient}};
  }
  std::span<const RowPart> still() const override { return still_; }

  static constexpr int64_t kTwice = 4, kStands = 9;

 private:
  std::vector<RowPart> still_{{kTwice, 7}, {7, kStands}};
};

TEST(RoundPart, PartsOfUpdatesCountApartAndEntriesStandStill) {
  TinyJob job{.server = {.optimizer = "momentum", .beta = 0.5}};
  const std::vector<float> start = train_threads(1, job, 0), plain = train_threads(1, job, 1);
  job.round_part = [](Communicator&) { return std::make_unique<Weigher>(); };
  const std::vector<float> parted = train_threads(1, job, 1);
  for (std::size_t i = 0; i < parted.size(); ++i) {
    if (i < Weigher::kTwice) {
      EXPECT_NEAR(parted[i] - start[i], 2 * (plain[i] - start[i]), 1e-6);
    } else {
      EXPECT_EQ(parted[i], i < Weigher::kStands ? start[i] : plain[i]) << i;
    }
  }
  const std::vector<float> alone = train_threads(1, job, 5);
  for (int ranks = 2; ranks <= 4; ++ranks) EXPECT_EQ(train_threads(ranks, job, 5), alone);
  EXPECT_EQ(alone[5], start[5]);
}

}  // namespace
}  // namespace hanse
