// What a round's sum needs: noise by blocks, on any ranks and in any parts, and the range.
#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/private_sum.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Integers = std::vector<int64_t>;
constexpr int64_t kParams = 2 * kNoiseBlock + 100;

CipherKey key() { return CipherKey::of_numbers(std::array<uint64_t, 1>{7}); }

// The noise of `rank` on entries that come in parts of this length.
Integers noise_of(Mechanism mechanism, int64_t rank, int64_t ranks, int64_t part) {
  const Noise noise(mechanism, 64);
  Integers sum(kParams);
  for (int64_t begin = 0; begin < kParams; begin += part) {
    const auto size = static_cast<std::size_t>(std::min(part, kParams - begin));
    add_noise(noise, key(), rank, ranks, begin,
              std::span(sum).subspan(static_cast<std::size_t>(begin), size));
  }
  return sum;
}

TEST(PrivateSum, NoiseIsTheSameInAnyPartsAndOnAnyRanks) {
  for (const Mechanism mechanism : {Mechanism::kDiscreteGaussian, Mechanism::kSkellam}) {
    const Integers whole = noise_of(mechanism, 0, 1, kParams);
    for (const int64_t part : {int64_t{1000}, kNoiseBlock, kNoiseBlock + 1}) {
      EXPECT_EQ(noise_of(mechanism, 0, 1, part), whole) << part;
    }
    for (const int64_t ranks : {2, 3, 4}) {
      Integers sum(kParams);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Integers part = noise_of(mechanism, rank, ranks, 3000);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      }
      EXPECT_EQ(sum, whole) << ranks;
    }
  }
}

TEST(PrivateSum, GroupsHaveStreamsOfTheirOwn) {
  const Integers whole = noise_of(Mechanism::kDiscreteGaussian, 0, 1, kParams);
  const auto group = [&](int64_t number) {
    const auto first = whole.begin() + number * kNoiseGroup;
    return Integers(first, first + kNoiseGroup);
  };
  EXPECT_NE(group(0), group(1));
  EXPECT_NE(group(1), group(2));
  for (const uint64_t number : {1, 130}) {
    Integers alone(kNoiseGroup);
    CipherStream words(key(), number);
    Noise(Mechanism::kDiscreteGaussian, 64).add(words, alone);
    EXPECT_EQ(group(static_cast<int64_t>(number)), alone);
  }
}

TEST(PrivateSum, KnowsTheLargestCohort) {
  PrivacyTerms terms{.clients = 1000, .per_round = 100};
  EXPECT_EQ(largest_cohort(terms), 1000);
  terms.attendance = Attendance::kUniform;
  EXPECT_EQ(largest_cohort(terms), 100);
  terms.attendance = Attendance::kPoisson;
  EXPECT_EQ(largest_cohort(terms), 300);
  terms.clients = 150;
  EXPECT_EQ(largest_cohort(terms), 150);
}

TEST(PrivateSum, RefusesWhatTheSumCannotHold) {
  const Lattice lattice = Lattice::of(1, -20);
  check_range(1 << 17, lattice, int64_t{1} << 40);
  expect_error<InvalidArgument>([&] { check_range(1 << 18, lattice, 0); },
                                {"privacy.clip", "262144 updates"});
  expect_error<InvalidArgument>([&] { check_range(1, {-8, 1}, int64_t{1} << 56); }, {"noise"});
}

TEST(PrivateSum, TheMeanIsByTheExpectedNumber) {
  const Lattice lattice = Lattice::of(1, -20);
  Integers z(2), sum(2);
  const std::vector<std::vector<float>> updates{{0.5F, 0}, {0, -0.25F}};
  for (const auto& update : updates) {
    clip_to_lattice(update, 1, lattice, z);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += z[i];
  }
  EXPECT_EQ(step_of_sum(lattice, 4) * static_cast<double>(sum[0]), 0.125);
  EXPECT_EQ(step_of_sum(lattice, 4) * static_cast<double>(sum[1]), -0.0625);
}

}  // namespace
}  // namespace hanse
