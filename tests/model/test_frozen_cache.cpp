// What is computed of samples by blocks, and when again.
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/frozen_cache.hpp"

namespace hanse {
namespace {

constexpr int64_t kBlock = FrozenCache::kBlock;

// Makes two values of a sample: its first, and the first of the samples that it is computed with.
class FirstValues final : public FrozenPart {
 public:
  int64_t values() const override { return 2; }
  std::string digest() const override { return "first values"; }
  void compute(const float* samples, int64_t rows, float* out) override {
    ++calls;
    for (int64_t i = 0; i < rows; ++i) {
      out[2 * i] = samples[4 * i];
      out[2 * i + 1] = samples[0];
    }
  }

  int64_t calls = 0;
};

class FrozenCaches : public testing::Test {
 protected:
  // 40 samples of four values: two blocks, and one of eight samples.
  FrozenCaches() {
    DataOptions data;
    data.kind = "random";
    data.shape = {1, 1, 4};
    data.classes = 2;
    FederationOptions options;
    options.clients = 4;
    options.samples = 10;
    options.partition = "iid";
    federation_ = Federation::load(data, options, 1, *alone_);
    samples_.resize(static_cast<std::size_t>(4 * federation_.samples()));
    federation_.copy({0, federation_.samples()}, samples_.data());
  }

  std::vector<float> gather(FrozenCache& cache, int64_t begin, const std::vector<int32_t>& order) {
    std::vector<float> out(2 * order.size());
    cache.gather({.rows = std::ssize(order), .places = {begin, order.data()}}, out.data());
    return out;
  }
  float first_of(int64_t sample) const { return samples_[static_cast<std::size_t>(4 * sample)]; }

  void expect_values(FrozenCache& cache, int64_t begin, const std::vector<int32_t>& order) {
    const std::vector<float> found = gather(cache, begin, order);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const int64_t place = begin + order[i];
      EXPECT_EQ(found[2 * i], first_of(place)) << place;
      EXPECT_EQ(found[2 * i + 1], first_of(place / kBlock * kBlock)) << place;
    }
  }

  std::unique_ptr<Communicator> alone_ = make_single_communicator();
  Federation federation_;
  std::vector<float> samples_;
  FirstValues part_;
};

TEST_F(FrozenCaches, ASampleIsComputedWithItsBlock) {
  FrozenCache cache(federation_, part_);
  ASSERT_EQ(federation_.samples(), 40);
  EXPECT_EQ(cache.shape().blocks, 3);
  expect_values(cache, 10, {9, 0, 3, 20, 29, 21, 5});
  EXPECT_EQ(part_.calls, 3);
  std::vector<float> range(2 * 7);
  cache.gather({.rows = 7, .places = {.begin = 33}}, range.data());
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(range[2 * i], first_of(33 + static_cast<int64_t>(i)));
    EXPECT_EQ(range[2 * i + 1], first_of(32));
  }
}

TEST_F(FrozenCaches, WithoutAStoreEachBatchComputesItsBlocks) {
  FrozenCache cache(federation_, part_);
  for (int64_t i = 1; i < 4; ++i) {
    expect_values(cache, 0, {0, 17, 1, 18});
    EXPECT_EQ(part_.calls, 2 * i);
  }
}

TEST_F(FrozenCaches, AStoreHasEachBlockOnce) {
  FrozenCache cache(federation_, part_);
  cache.keep_in(FrozenStore::in_memory(*alone_, cache.shape()));
  for (int i = 0; i < 3; ++i) expect_values(cache, 2, {0, 37, 20, 1});
  EXPECT_EQ(part_.calls, 3);
  FrozenCache other(federation_, part_);
  other.keep_in(FrozenStore::in_memory(*alone_, cache.shape()));
  EXPECT_GT(other.seconds_of_all(), 0);
  expect_values(other, 0, {0, 1});
  EXPECT_EQ(part_.calls, 4);
}

TEST_F(FrozenCaches, WhereThereIsRoomForSomeTheLastUsedStay) {
  FrozenCache cache(federation_, part_);
  cache.keep_some(2 * cache.shape().block_bytes);
  expect_values(cache, 0, {0});   // block 0
  expect_values(cache, 0, {16});  // and 1
  expect_values(cache, 0, {1});
  EXPECT_EQ(part_.calls, 2);
  expect_values(cache, 0, {32});  // in the place of 1
  expect_values(cache, 0, {2});
  EXPECT_EQ(part_.calls, 3);
  expect_values(cache, 0, {17});
  EXPECT_EQ(part_.calls, 4);
}

TEST_F(FrozenCaches, SamplesWithoutPlacesAreComputedAlone) {
  FrozenCache cache(federation_, part_);
  const std::vector<float> own = {5, 0, 0, 0, 7, 0, 0, 0};
  std::vector<float> found(4);
  cache.gather({.features = own.data(), .rows = 2}, found.data());
  EXPECT_EQ(found, (std::vector<float>{5, 5, 7, 5}));
}

}  // namespace
}  // namespace hanse
