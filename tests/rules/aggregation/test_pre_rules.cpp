#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/pre_rules.hpp"
#include "rules/aggregation/rows.hpp"

namespace hanse {
namespace {

const Rows kFive{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {10, 10}};

Rows cloud(uint64_t trial, std::size_t n, std::size_t length) {
  RandomStream random(78, Purpose::kData, trial);
  return random_rows(n, length, 0.3, random);
}

Rows mapped(const Numbers& matrix, const Rows& rows) {
  Rows result;
  for (std::size_t at = 0; at < matrix.size(); at += rows.size()) {
    result.push_back(combination(std::span(matrix).subspan(at, rows.size()), rows));
  }
  return result;
}

Numbers mean_row(const Rows& rows) {
  return combination(Numbers(rows.size(), 1 / static_cast<double>(rows.size())), rows);
}

Rows clip_literally(Rows rows, double longest) {
  for (Numbers& row : rows) {
    if (norm(row) > longest) row = scaled(row, longest / norm(row));
  }
  return rows;
}

Rows clip_longest_literally(const Rows& rows, std::size_t f) {
  Numbers lengths;
  for (const Numbers& row : rows) lengths.push_back(norm(row));
  std::ranges::sort(lengths, std::greater());
  return clip_literally(rows, lengths[2 * f * (rows.size() - f) / rows.size()]);
}

Rows mix_literally(const Rows& rows, std::size_t f) {
  Rows mixed;
  for (const Numbers& from : rows) {
    Rows near = rows;
    std::ranges::stable_sort(near, {}, [&](const Numbers& row) {
      double square = 0;
      for (std::size_t j = 0; j < row.size(); ++j) square += std::pow(row[j] - from[j], 2);
      return square;
    });
    near.resize(rows.size() - f);
    mixed.push_back(mean_row(near));
  }
  return mixed;
}

Rows bucket_literally(const Rows& rows, const std::vector<int64_t>& permutation, std::size_t size) {
  Rows buckets;
  for (std::size_t at = 0; at < rows.size(); at += size) {
    Rows bucket;
    for (std::size_t i = at; i < std::min(at + size, rows.size()); ++i) {
      bucket.push_back(rows[static_cast<std::size_t>(permutation[i])]);
    }
    buckets.push_back(mean_row(bucket));
  }
  return buckets;
}

TEST(PreRules, AreReadAndWritten) {
  for (const char* text : {"none", "clip(2)", "arc", "nnm", "bucketing(3)", "clip(0.5),nnm",
                           "bucketing(2),arc,clip(1e-3)"}) {
    const PreRules rules = PreRules::parse(text);
    EXPECT_EQ(PreRules::parse(rules.text()).list, rules.list) << text;
  }
  EXPECT_EQ(PreRules::parse(" clip( 2 ), nnm ").text(), "clip(2),nnm");
  EXPECT_EQ(PreRules::parse("none").text(), "none");
  EXPECT_TRUE(PreRules::parse("clip(2), nnm").has(PreRuleKind::kNnm));
  for (const char* text : {"clip", "clip(0)", "clip(-1)", "clip(inf)", "clip(2", "nnm(2)", "arc()",
                           "bucketing", "bucketing(0)", "bucketing(1.5)", "mean", "nnm,,arc"}) {
    EXPECT_THROW(PreRules::parse(text), InvalidArgument) << text;
  }
}

TEST(PreRules, MixEachRowOfTheHandExampleWithItsNeighbours) {
  const Numbers entries = gram_of(kFive);
  MappedRows rows({entries, 5});
  rows.apply(PreRules::parse("nnm"), 1, {});
  const Numbers near(4, 0.25);
  const Numbers m = rows.matrix();
  for (std::size_t a = 0; a < 4; ++a) {
    expect_near(Numbers(m.begin() + long(5 * a), m.begin() + long(5 * a + 5)),
                {0.25, 0.25, 0.25, 0.25, 0}, 0);
  }
  expect_near(Numbers(m.begin() + 20, m.end()), {0, 0.25, 0.25, 0.25, 0.25}, 0);
}

TEST(PreRules, AreTheLiteralMapsOnVectors) {
  for (uint64_t trial = 0; trial < 120; ++trial) {
    const std::size_t n = 2 + trial % 9;
    const std::size_t f = trial % ((n + 1) / 2);
    const Rows rows = cloud(trial, n, 1 + trial % 5);
    const auto order = bucket_permutation(5, int64_t(trial), n);
    const Numbers entries = gram_of(rows);
    const std::vector<std::pair<std::string, Rows>> cases{
        {"clip(1.5)", clip_literally(rows, 1.5)},
        {"arc", clip_longest_literally(rows, f)},
        {"nnm", mix_literally(rows, f)},
        {"bucketing(2)", bucket_literally(rows, order, 2)},
        {"clip(1.5),nnm", mix_literally(clip_literally(rows, 1.5), f)},
        {"bucketing(3),clip(1)", clip_literally(bucket_literally(rows, order, 3), 1)}};
    for (const auto& [text, expected] : cases) {
      MappedRows map({entries, n});
      map.apply(PreRules::parse(text), int64_t(f), order);
      const Rows found = mapped(map.matrix(), rows);
      ASSERT_EQ(found.size(), expected.size()) << text;
      for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i], 1e-12);
      const Numbers products = gram_of(expected);
      const auto here = map.gram().entries;
      expect_near(Numbers(here.begin(), here.end()), products, 1e-11);
      // The coefficients of the mapped rows, told of the rows themselves.
      Numbers c;
      for (std::size_t i = 0; i < found.size(); ++i) c.push_back(1 + double(i));
      expect_near(combination(map.pull_back(c), rows), combination(c, expected), 1e-11);
    }
  }
}

TEST(PreRules, KeepExtraRowsAsTheyAre) {
  const Rows rows = cloud(3, 6, 4);
  const Numbers entries = gram_of(rows);
  MappedRows map({entries, 6}, 1);
  map.apply(PreRules::parse("bucketing(2), clip(0.1)"), 1, std::vector<int64_t>{4, 0, 3, 1, 2});
  Rows first(rows.begin(), rows.end() - 1);
  Rows expected = clip_literally(bucket_literally(first, {4, 0, 3, 1, 2}, 2), 0.1);
  expected.push_back(rows.back());
  const Rows found = mapped(map.matrix(), rows);
  ASSERT_EQ(found.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) expect_near(found[i], expected[i], 1e-13);
}

TEST(PreRules, OfNoByzantineRowsKeepEqualCoefficientsToTheLastBit) {
  for (const std::size_t n : {1, 3, 10, 49}) {
    const Numbers entries = gram_of(cloud(n, n, 3));
    const Numbers equal(n, 1 / double(n));
    for (const char* text : {"nnm", "arc", "bucketing(1)", "nnm,arc,bucketing(1),nnm"}) {
      MappedRows map({entries, n});
      map.apply(PreRules::parse(text), 0, bucket_permutation(1, 2, n));
      EXPECT_EQ(map.pull_back(equal), equal) << n << " " << text;
    }
  }
}

TEST(PreRules, PermutationsDependOnSeedAndRoundAlone) {
  const auto order = bucket_permutation(1, 7, 20);
  EXPECT_EQ(bucket_permutation(1, 7, 20), order);
  EXPECT_NE(bucket_permutation(1, 8, 20), order);
  EXPECT_NE(bucket_permutation(2, 7, 20), order);
  auto sorted = order;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(sorted[i], int64_t(i));
}

}  // namespace
}  // namespace hanse
