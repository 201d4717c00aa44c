// A stage that changes the integers of the sum.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/base/wrapping.hpp"
#include "hanse/sums/sum_stage.hpp"
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
class Masks final : public SumStage {
 public:
  Masks(int64_t rank, int64_t ranks) : rank_(rank), ranks_(ranks) {}

  void begin(const SummedEntries& sum) override {
    for (const int64_t integer : sum.integers) EXPECT_EQ(integer, 0);
    add(sum, rank_, 1);
  }
  void on_rank(const SummedEntries& sum) override { add(sum, rank_, 2); }
  void on_server(const SummedEntries& sum) override {
    for (int64_t rank = 0; rank < ranks_; ++rank) add(sum, rank, -3);
  }

 private:
  // sum += times * mask
  static void add(const SummedEntries& sum, int64_t rank, int64_t times) {
    for (std::size_t i = 0; i < sum.integers.size(); ++i) {
      const auto one =
          static_cast<uint64_t>(mask(sum.round, rank, sum.begin + static_cast<int64_t>(i)));
      int64_t& integer = sum.integers[i];
      integer = wrapping_sum(integer, static_cast<int64_t>(one * static_cast<uint64_t>(times)));
    }
  }

  int64_t rank_, ranks_;
};

std::unique_ptr<SumStage> make_masks(Communicator& comm) {
  return std::make_unique<Masks>(comm.rank(), comm.size());
}

TEST(SumStage, MasksThatCancelLeaveTheBits) {
  for (const bool by_losses : {false, true}) {
    TinyJob job{.by_losses = by_losses};
    const auto expected = train_threads(1, job, 6);
    job.sum_stage = make_masks;
    for (int ranks = 1; ranks <= 4; ++ranks) EXPECT_EQ(train_threads(ranks, job, 6), expected);
  }
}

// Adds an integer to every entry of rank 0's sum in one round.
class Shift final : public SumStage {
 public:
  explicit Shift(Communicator& comm) : adds_(comm.rank() == 0) {}

  void begin(const SummedEntries& sum) override {
    for (int64_t& integer : sum.integers) integer += adds_ && sum.round == 2 ? int64_t{1} << 43 : 0;
  }

 private:
  bool adds_;
};

// What is added stays in the sum: half a unit of the model in a round.
TEST(SumStage, WhatIsAddedMovesTheModel) {
  TinyJob job{.sampler = "full"};
  const auto plain = train_threads(2, job, 2);
  job.sum_stage = [](Communicator& comm) { return std::make_unique<Shift>(comm); };
  const auto moved = train_threads(2, job, 2);
  ASSERT_EQ(moved.size(), plain.size());
  for (std::size_t i = 0; i < moved.size(); ++i) EXPECT_NEAR(moved[i] - plain[i], 0.5, 1e-6);
}

}  // namespace
}  // namespace hanse
