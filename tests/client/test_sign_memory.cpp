#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/client/sign_memory.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

// Two tensors, of more values than a block of the fast code has and of fewer, and a buffer.
ParameterLayout layout_of_three() {
  ParameterLayout layout;
  layout.add("a.weight", {5000}, 1);
  layout.add("a.bias", {7}, 1);
  layout.add_buffer("a.mean", {3});
  return layout;
}

// The published code's memory, entry by entry: the share of rounds without an increase.
class Slow {
 public:
  explicit Slow(double threshold) : threshold_(threshold), share_(5010) {}

  // m of the update, which is remembered. Counts are whole numbers, so that shares are exact.
  std::vector<bool> mask(const Row& update) {
    std::vector<bool> mask;
    for (std::size_t i = 0; i < update.size(); ++i) {
      const bool down = !(update[i] > 0);
      const double alike = down ? share_[i] : rounds_ - share_[i];
      mask.push_back(i >= 5007 || rounds_ == 0 || alike / rounds_ > threshold_);
      share_[i] += down ? 1 : 0;
    }
    ++rounds_;
    return mask;
  }

 private:
  double threshold_;
  double rounds_ = 0;
  std::vector<double> share_;
};

Row random_update(uint64_t round) {
  RandomStream random(5, Purpose::kData, round);
  Row update(5010);
  for (std::size_t i = 0; i < update.size(); ++i) {
    const double lean = static_cast<double>(i % 5) / 4;  // how often an entry rises
    update[i] = static_cast<float>((random.uniform() < lean ? 1 : -1) * random.uniform());
    if (i % 11 == 0) update[i] = 0;  // as if it fell
  }
  return update;
}

double norm_of(const Row& update, const std::vector<bool>& mask, std::size_t begin,
               std::size_t end) {
  double square = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (mask[i]) square += static_cast<double>(update[i]) * static_cast<double>(update[i]);
  }
  return std::sqrt(square);
}

TEST(SignMemory, IsTheShareOfRoundsEntryByEntry) {
  for (const double threshold : {0.0, 0.3, 0.5, 0.8}) {
    const SignMemory memory(layout_of_three(), threshold);
    ASSERT_EQ(width_of(memory.state_blocks()), 5008);
    Row state(5008);
    Slow slow(threshold);
    for (uint64_t round = 1; round <= 12; ++round) {
      const Row update = random_update(round);
      const auto expected = slow.mask(update);
      Row masked(5010), mask(5010);
      memory.mask(update, state, 0, masked, mask);
      std::size_t counted = 0;
      for (std::size_t i = 0; i < update.size(); ++i) {
        ASSERT_EQ(mask[i], expected[i] ? 1 : 0) << threshold << " round " << round << " at " << i;
        ASSERT_EQ(masked[i], expected[i] ? update[i] : 0);
        counted += expected[i];
      }
      if (threshold > 0) {
        EXPECT_EQ(round == 1, counted == update.size()) << round;
      }
      // The part from the middle of a tensor to the buffer's end.
      Row part(2000), part_mask(2000);
      memory.mask(update, state, 3010, part, part_mask);
      EXPECT_EQ(part, Row(masked.begin() + 3010, masked.end()));
      EXPECT_EQ(part_mask, Row(mask.begin() + 3010, mask.end()));
      EXPECT_NEAR(memory.distance(update, state),
                  norm_of(update, expected, 0, 5000) + norm_of(update, expected, 5000, 5007),
                  1e-12);
      memory.remember(update, state);
    }
  }
}

// 3 of 10 is not more than a threshold of 0.3, from either side.
TEST(SignMemory, TiesDoNotCount) {
  ParameterLayout layout;
  layout.add("w", {2}, 1);
  const SignMemory memory(layout, 0.3);
  Row state(3);
  for (int round = 0; round < 10; ++round) {
    memory.remember(Row{round < 3 ? -1.0F : 1.0F, round < 7 ? -1.0F : 1.0F}, state);
  }
  Row masked(2), mask(2);
  memory.mask(Row{-1, 1}, state, 0, masked, mask);
  EXPECT_EQ(mask, (Row{0, 0}));
  memory.remember(Row{-1, 1}, state);  // 4 of 11
  memory.mask(Row{-1, 1}, state, 0, masked, mask);
  EXPECT_EQ(mask, (Row{1, 1}));
}

}  // namespace
}  // namespace hanse
