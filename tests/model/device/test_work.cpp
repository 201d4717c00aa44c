// The functions of the kernels, item by item, against what the host has: RandomStream, the masks of
// dropout and UpdateSum, bit for bit.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/sums/update_sum.hpp"
#include "model/device/work.hpp"
#include "model/layers/dropout.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint64_t kMost = ~uint64_t{0};

TEST(PhiloxBlock, IsThatOfRandomStream) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, kMost}) {
    for (const uint64_t round : {uint64_t{3}, kMost}) {
      RandomStream stream(seed, Purpose::kDropout, round, kMost - 5);
      const auto purpose = static_cast<uint64_t>(Purpose::kDropout);
      for (uint64_t block = 0; block < 4; ++block) {
        const PhiloxBlock values(seed, purpose, block, round, kMost - 5);
        for (const uint64_t value : values.values) EXPECT_EQ(value, stream.next());
      }
    }
  }
}

// Masks of clients with `counts` samples, who have drawn `before` values each.
struct Masks {
  int64_t batch, width, steps;
  double share;
  std::vector<int64_t> counts, before;
};

const std::vector<int64_t> kStreams{11, 2, 0, -1, 9, 5, 11, 2, -7};  // [3, 3]

std::vector<Row> masks_of_work(const Masks& masks) {
  const DropoutRule rule(masks.share);
  const auto clients = static_cast<int64_t>(masks.counts.size());
  Row all(static_cast<std::size_t>(clients * masks.batch * masks.width));
  const DropWork work{.purpose = static_cast<uint64_t>(Purpose::kDropout),
                      .threshold = rule.threshold,
                      .scale = rule.scale,
                      .batch = masks.batch,
                      .width = masks.width,
                      .steps = masks.steps,
                      .counts = masks.counts.data(),
                      .streams = kStreams.data(),
                      .drawn = masks.before.data(),
                      .mask = all.data()};
  for (int64_t item = clients * work.blocks() - 1; item >= 0; --item) work(item);  // in any order
  std::vector<Row> rows;
  for (int64_t client = 0; client < clients; ++client) {
    const auto first = all.begin() + client * masks.batch * masks.width;
    rows.emplace_back(first, first + masks.batch * masks.width);
  }
  return rows;
}

// By draw_mask(), whose values stand [steps, samples, width / steps].
Row mask_of_stream(const Masks& masks, std::size_t client) {
  const int64_t samples = masks.counts[client], one = masks.width / masks.steps;
  const int64_t* key = kStreams.data() + 3 * client;
  RandomStream noise(static_cast<uint64_t>(key[0]), Purpose::kDropout,
                     static_cast<uint64_t>(key[1]), static_cast<uint64_t>(key[2]));
  for (int64_t i = 0; i < masks.before[client]; ++i) noise.next();
  Row drawn(static_cast<std::size_t>(samples * masks.width));
  draw_mask(masks.share, noise, drawn);
  Row mask(static_cast<std::size_t>(masks.batch * masks.width));
  auto next = drawn.begin();
  for (int64_t step = 0; step < masks.steps; ++step) {
    for (int64_t sample = 0; sample < samples; ++sample) {
      std::copy_n(next, one, mask.begin() + sample * masks.width + step * one);
      next += one;
    }
  }
  return mask;
}

void expect_masks(const Masks& masks) {
  const auto rows = masks_of_work(masks);
  for (std::size_t client = 0; client < rows.size(); ++client) {
    EXPECT_EQ(rows[client], mask_of_stream(masks, client))
        << masks.width << " x " << masks.counts[client] << " after " << masks.before[client];
  }
}

TEST(DropWork, HasTheBitsOfDrawMask) {
  for (const int64_t width : {1, 2, 7, 16, 33}) {
    for (const int64_t before : {0, 1, 2, 3, 4, 77}) {
      expect_masks({5, width, 1, 0.25, {5, 0, 3}, {before, 9, before + 1}});
    }
  }
}

TEST(DropWork, StandsSampleBySampleWhereItIsDrawnStepByStep) {
  expect_masks({4, 15, 3, 0.5, {4, 1, 3}, {0, 2, 5}});
  expect_masks({4, 6, 6, 0.5, {0, 2, 4}, {1, 3, 0}});
}

TEST(DropWork, KeepsTheEndsOfTheShare) {
  expect_masks({2, 40, 1, 0, {2, 1, 0}, {0, 0, 0}});
  expect_masks({2, 40, 1, 0.99999999, {2, 1, 0}, {0, 0, 0}});
  expect_masks({128, 4096, 1, 0.5, {128, 127, 1}, {0, 1, 2}});  // also the threshold itself
}

// A pass's masks of these sizes, one after the other, by the stream itself: 32 bits a value, low
// halves first, and each mask begins with a value of its own.
std::vector<std::vector<bool>> kept_by_stream(uint64_t seed, uint64_t threshold,
                                              const std::vector<int64_t>& sizes) {
  RandomStream stream(seed, Purpose::kDropout);
  std::vector<std::vector<bool>> masks;
  for (const int64_t size : sizes) {
    std::vector<bool>& mask = masks.emplace_back();
    for (int64_t i = 0; i < size; i += 2) {
      const uint64_t bits = stream.next();
      for (int half = 0; half < 2 && i + half < size; ++half) {
        mask.push_back((half == 0 ? bits & 0xffffffff : bits >> 32) < threshold);
      }
    }
  }
  return masks;
}

void expect_kept(uint64_t threshold, const std::vector<int64_t>& sizes) {
  const int64_t seed = -17;
  const auto expected = kept_by_stream(static_cast<uint64_t>(seed), threshold, sizes);
  KeepWork work{.purpose = static_cast<uint64_t>(Purpose::kDropout),
                .threshold = threshold,
                .seed = &seed,
                .drawn = 0};
  for (const std::vector<bool>& mask : expected) {
    Row floats(mask.size(), -1);
    const auto bools = std::make_unique<bool[]>(mask.size() + 1);
    work.values = std::ssize(mask);
    for (int64_t item = work.items() - 1; item >= 0; --item) {
      work.floats = floats.data(), work.bools = nullptr;
      work(item);
      work.floats = nullptr, work.bools = bools.get();
      work(item);
    }
    for (std::size_t i = 0; i < mask.size(); ++i) {
      EXPECT_EQ(floats[i], mask[i] ? 1 : 0) << i << " of " << mask.size();
      EXPECT_EQ(bools[i], mask[i]) << i << " of " << mask.size();
    }
    work.drawn += KeepWork::draws(work.values);
  }
}

TEST(KeepWork, HasTheBitsOfAStream) {
  expect_kept(uint64_t{1} << 31, {1, 2, 3, 7, 8, 9, 0, 16, 17, 1, 1000, 31});
  expect_kept(uint64_t{3} << 30, {2050, 5});
}

TEST(KeepWork, KeepsAllOrNothingAtTheEnds) {
  expect_kept(0, {9});
  expect_kept(uint64_t{1} << 32, {9, 4096});
}

// Every magnitude at which rounding to 2^-44 does something else, and what is no number.
Row awkward_row(int64_t n, uint64_t key) {
  RandomStream stream(key, Purpose::kData);
  Row row(static_cast<std::size_t>(n));
  for (float& x : row) {
    x = static_cast<float>(std::ldexp(stream.normal(), 3 - static_cast<int>(stream.below(160))));
  }
  return row;
}

struct Folded {
  Row sum;
  std::vector<FoldResult> results;
};

Folded on_host(const std::vector<Row>& rows, const Row& theta, const std::vector<double>& weights,
               Reduction reduction) {
  UpdateSum sum(std::ssize(rows[0]), 3, reduction);
  Folded folded{.sum = Row(rows[0].size())};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row row = rows[i];
    folded.results.push_back(sum.fold(row, theta, weights[i]));
  }
  sum.take(folded.sum);
  return folded;
}

Folded by_work(const std::vector<Row>& rows, const Row& theta, const std::vector<double>& weights,
               Reduction reduction) {
  const auto n = std::ssize(rows[0]), stride = n + 3;
  const auto clients = std::ssize(rows);
  const bool is_exact = reduction == Reduction::kExact;
  Row all(static_cast<std::size_t>(clients * stride), kNan);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(), all.begin() + static_cast<int64_t>(i) * stride);
  }
  std::vector<int64_t> fixed(rows[0].size());
  Folded folded{.sum = Row(rows[0].size())};
  FoldWork work{.rows = all.data(),
                .theta = theta.empty() ? nullptr : theta.data(),
                .stride = stride,
                .clients = clients,
                .n = n,
                .limit = UpdateSum::limit(3) * UpdateSum::kUnits,
                .exact = is_exact ? fixed.data() : nullptr,
                .fast = is_exact ? nullptr : folded.sum.data()};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    work.scales[i] = weights[i] * (is_exact ? UpdateSum::kUnits : 1);
  }
  const std::vector<double> along{0.25, kNan, -3};
  const auto blocks = static_cast<std::size_t>(work.blocks());
  std::vector<double> facts(2 * rows.size() * blocks + along.size());
  work.facts = facts.data();
  work.along = along.data();
  work.n_along = std::ssize(along);
  run_blocks(work, work.blocks());
  EXPECT_EQ(facts[facts.size() - 1], -3);
  EXPECT_EQ(facts[facts.size() - 3], 0.25);
  const auto sum_of = [&](std::size_t row) {
    const auto first = facts.begin() + static_cast<int64_t>(row * blocks);
    return std::accumulate(first, first + work.blocks(), 0.0);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double squared = sum_of(i);
    folded.results.push_back({.squared_norm = squared,
                              .in_range = sum_of(rows.size() + i) == 0 && std::isfinite(squared)});
  }
  for (std::size_t i = 0; is_exact && i < fixed.size(); ++i) {
    folded.sum[i] = static_cast<float>(static_cast<double>(fixed[i]) / UpdateSum::kUnits);
  }
  return folded;
}

void expect_fold(const std::vector<Row>& rows, const Row& theta,
                 const std::vector<double>& weights) {
  for (const Reduction reduction : {Reduction::kExact, Reduction::kFast}) {
    const Folded expected = on_host(rows, theta, weights, reduction);
    const Folded got = by_work(rows, theta, weights, reduction);
    for (std::size_t i = 0; i < got.sum.size(); ++i) {
      const bool is_same =
          std::bit_cast<uint32_t>(got.sum[i]) == std::bit_cast<uint32_t>(expected.sum[i]);
      EXPECT_TRUE(is_same || (std::isnan(got.sum[i]) && std::isnan(expected.sum[i])))
          << got.sum[i] << ", not " << expected.sum[i] << " at " << i;
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(got.results[i].in_range, expected.results[i].in_range) << "client " << i;
      if (!expected.results[i].in_range) continue;
      const double squared = expected.results[i].squared_norm;
      EXPECT_NEAR(got.results[i].squared_norm, squared, 1e-12 * squared);
    }
  }
}

TEST(FoldWork, HasTheBitsOfUpdateSum) {
  constexpr int64_t kAllThreads = FoldWork::kMostBlocks * FoldWork::kThreads;
  for (const int64_t n : {int64_t{1}, int64_t{17}, int64_t{3000}, kAllThreads + 5}) {
    const std::vector<Row> rows{awkward_row(n, 1), awkward_row(n, 2), awkward_row(n, 3)};
    expect_fold(rows, awkward_row(n, 4), {0.3, -1.7, 0});
    expect_fold({rows[1]}, {}, {0.9});
  }
  // In two groups, and in two with the last one full.
  for (const std::size_t clients : {std::size_t{11}, 2 * std::size_t{FoldWork::kGroup}}) {
    std::vector<Row> rows;
    std::vector<double> weights;
    for (std::size_t i = 0; i < clients; ++i) {
      rows.push_back(awkward_row(700, i));
      weights.push_back(0.1 * static_cast<double>(i) - 0.3);
    }
    expect_fold(rows, awkward_row(700, 99), weights);
  }
}

TEST(FoldWork, TakesWhatIsNoNumberOrDoesNotFitAsTheHostDoes) {
  const auto limit = static_cast<float>(UpdateSum::limit(3));
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  const std::vector<float> values{kNan, -kNan, kInf, -kInf, 0, -0.0F, kLeast, -kLeast,
                                  std::numeric_limits<float>::max(), limit,
                                  std::nextafter(limit, 0.0F), std::nextafter(limit, kInf), -limit,
                                  // halves of a unit, which go to the even one
                                  0x0.8p-44F, 0x1.8p-44F, 0x2.8p-44F, -0x0.8p-44F, -0x1.8p-44F};
  for (const float a : values) {
    for (const float b : values) expect_fold({{a, 1}, {b, 2}}, {0, 0.5F}, {1, 1});
    for (const float origin : {a, 0.25F, -kInf}) expect_fold({{a, 3}}, {origin, 0}, {-1});
  }
  expect_fold({{kNan, 1}}, {0, 0}, {0});
  expect_fold({{1, kInf}}, {0, 0}, {0});
  expect_fold({{1, 2}}, {0, 0}, {std::numeric_limits<double>::quiet_NaN()});
}

}  // namespace
}  // namespace hanse
