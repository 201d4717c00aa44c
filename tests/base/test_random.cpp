#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "support/chi_square.hpp"

namespace hanse {
namespace {

using Block = std::array<uint64_t, 4>;
using Key = std::array<uint64_t, 2>;

// Philox 4x64-10 as its paper writes it (Salmon et al. 2011, section 3.3).
Block slow_philox(Block c, Key k) {
  for (int round = 0; round < 10; ++round) {
    const auto a = static_cast<unsigned __int128>(0xD2E7470EE14C6C93) * c[0];
    const auto b = static_cast<unsigned __int128>(0xCA5A826395121157) * c[2];
    c = {static_cast<uint64_t>(b >> 64) ^ c[1] ^ k[0], static_cast<uint64_t>(b),
         static_cast<uint64_t>(a >> 64) ^ c[3] ^ k[1], static_cast<uint64_t>(a)};
    k[0] += 0x9E3779B97F4A7C15;
    k[1] += 0xBB67AE8584CAA73B;
  }
  return c;
}

TEST(RandomStream, TheReferenceHasRandom123sKnownAnswers) {
  constexpr uint64_t kOnes = ~uint64_t{0};
  EXPECT_EQ(slow_philox({}, {}), (Block{0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b,
                                        0x7e68b68aec7ba23b}));
  EXPECT_EQ(
      slow_philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
      (Block{0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6, 0xa09caebf594f0ba0}));
  EXPECT_EQ(
      slow_philox({0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89},
                  {0x452821e638d01377, 0xbe5466cf34e90c6c}),
      (Block{0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5, 0x57bd43b5e52b7fe6}));
}

TEST(RandomStream, KnownAnswerOfAnAllZeroStream) {
  const Block expected{0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b,
                       0x7e68b68aec7ba23b};
  RandomStream stream(0, Purpose{0});
  for (const uint64_t bits : expected) EXPECT_EQ(stream.next(), bits);
}

TEST(RandomStream, CountsBlocksOfItsOwnKey) {
  constexpr uint64_t kMost = ~uint64_t{0};
  for (const uint64_t seed : {uint64_t{1}, kMost}) {
    for (const uint64_t client : {uint64_t{0}, uint64_t{7}, kMost}) {
      RandomStream stream(seed, Purpose::kShuffle, 3, client);
      for (uint64_t block = 0; block < 5; ++block) {
        for (const uint64_t expected : slow_philox({block, 3, client, 0}, {seed, 5})) {
          EXPECT_EQ(stream.next(), expected);
        }
      }
    }
  }
}

TEST(RandomStream, NeighboursShareNothing) {
  std::set<uint64_t> seen;
  std::size_t drawn = 0;
  const auto take = [&](RandomStream stream) {
    for (int i = 0; i < 256; ++i, ++drawn) seen.insert(stream.next());
  };
  for (uint64_t i = 1; i < 9; ++i) {
    take(RandomStream(i, Purpose::kSampling, 1, 1));
    take(RandomStream(100, Purpose{i}, 1, 1));
    take(RandomStream(100, Purpose::kSampling, i + 1, 1));
    take(RandomStream(100, Purpose::kSampling, 1, i + 1));
  }
  EXPECT_EQ(seen.size(), drawn);
}

TEST(RandomStream, DoesNotDependOnOtherStreams) {
  RandomStream alone(1, Purpose::kShuffle, 2, 3);
  RandomStream among(1, Purpose::kShuffle, 2, 3);
  RandomStream other(1, Purpose::kShuffle, 2, 4);
  for (int i = 0; i < 20; ++i) {
    other.next();
    EXPECT_EQ(alone.next(), among.next());
  }
}

TEST(RandomStream, IsReadAtAnIndex) {
  RandomStream all(3, Purpose::kData, 4, 5);
  std::vector<uint64_t> values;
  for (int i = 0; i < 23; ++i) values.push_back(all.next());
  RandomStream read(3, Purpose::kData, 4, 5);
  for (const std::size_t index : {22U, 0U, 4U, 3U, 7U, 8U, 13U}) {
    read.seek(index);
    EXPECT_EQ(read.next(), values[index]);
    if (index + 1 == values.size()) continue;
    EXPECT_EQ(read.next(), values[index + 1]);  // and on from there
  }
}

TEST(RandomStream, UniformHasTheUpper53Bits) {
  RandomStream stream(4, Purpose::kData), twin(4, Purpose::kData);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = stream.uniform();
    ASSERT_EQ(u, static_cast<double>(twin.next() / 2048) / 9007199254740992.0);
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 5 / std::sqrt(12.0 * 10000));
}

TEST(RandomStream, BelowIsUniform) {
  RandomStream stream(5, Purpose::kData);
  for (const int64_t n : {2, 3, 7, 10, 100}) {
    std::vector<int64_t> counts(static_cast<std::size_t>(n));
    for (int64_t i = 0; i < 1000 * n; ++i) {
      const int64_t value = stream.below(n);
      ASSERT_TRUE(value >= 0 && value < n);
      ++counts[static_cast<std::size_t>(value)];
    }
    expect_equally_likely(counts);
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(stream.below(1), 0);
}

// 2^64 is 8/3 of this n: without rejection, results = 2 mod 3 come up 2/8 of the time, not 1/3.
TEST(RandomStream, BelowRejectsWhatWouldBias) {
  RandomStream stream(6, Purpose::kData);
  const int64_t n = int64_t{3} << 61;
  std::vector<int64_t> counts(3);
  for (int i = 0; i < 6000; ++i) ++counts[static_cast<std::size_t>(stream.below(n) % 3)];
  expect_equally_likely(counts);
}

TEST(RandomStream, NormalIsBoxMullersCosine) {
  RandomStream stream(7, Purpose::kInitialize), twin(7, Purpose::kInitialize);
  for (int i = 0; i < 100; ++i) {
    const double u = twin.uniform();
    const double v = twin.uniform();
    EXPECT_DOUBLE_EQ(stream.normal(),
                     std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * std::numbers::pi * v));
  }
}

// Mean and variance of `draws` values, against 5 standard errors of them.
template <class Draw>
void expect_moments(Draw draw, double mean, double variance, double kurtosis) {
  constexpr int kDraws = 400000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draw();
    sum += x;
    squares += (x - mean) * (x - mean);
  }
  EXPECT_NEAR(sum / kDraws, mean, 5 * std::sqrt(variance / kDraws));
  EXPECT_NEAR(squares / kDraws, variance, 5 * variance * std::sqrt((kurtosis - 1) / kDraws));
}

TEST(RandomStream, NormalMoments) {
  RandomStream stream(8, Purpose::kData);
  expect_moments([&] { return stream.normal(); }, 0, 1, 3);
}

TEST(RandomStream, GammaMoments) {
  RandomStream stream(9, Purpose::kPartition);
  for (const double shape : {0.1, 0.5, 1.0, 4.5, 100.0}) {
    expect_moments([&] { return stream.gamma(shape); }, shape, shape, 3 + 6 / shape);
  }
}

TEST(RandomStream, FillTakesWholeWords) {
  for (const std::size_t size : {0, 1, 7, 8, 9, 16, 17}) {
    RandomStream stream(10, Purpose::kDropout), twin(10, Purpose::kDropout);
    std::vector<uint8_t> bytes(size);
    stream.fill(bytes);
    for (std::size_t i = 0, word = 0; i < size; ++i) {
      if (i % 8 == 0) word = twin.next();
      ASSERT_EQ(bytes[i], static_cast<uint8_t>(word >> (8 * (i % 8)))) << size << " at " << i;
    }
    EXPECT_EQ(stream.next(), twin.next());
  }
}

TEST(RandomStream, ShuffleMakesEveryOrderEquallyLikely) {
  std::map<std::vector<int64_t>, int64_t> seen;
  RandomStream stream(11, Purpose::kShuffle);
  for (int i = 0; i < 6000; ++i) {
    std::vector<int64_t> values{1, 2, 3};
    stream.shuffle(std::span(values));
    ++seen[values];
  }
  ASSERT_EQ(seen.size(), 6U);
  std::vector<int64_t> counts;
  for (const auto& [order, count] : seen) counts.push_back(count);
  expect_equally_likely(counts);
}

TEST(RandomStream, ShuffleIsAPermutationOfAnyLength) {
  for (const std::size_t size : {0, 1, 2, 1000}) {
    std::vector<int64_t> wide(size);
    std::iota(wide.begin(), wide.end(), 0);
    std::vector<int32_t> narrow(wide.begin(), wide.end());
    const auto before = wide;
    RandomStream(12, Purpose::kShuffle).shuffle(std::span(wide));
    RandomStream(12, Purpose::kShuffle).shuffle(std::span(narrow));
    EXPECT_TRUE(std::equal(wide.begin(), wide.end(), narrow.begin()));
    std::sort(wide.begin(), wide.end());
    EXPECT_EQ(wide, before);
  }
}

}  // namespace
}  // namespace hanse
