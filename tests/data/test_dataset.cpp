#include <cmath>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/data/kinds.hpp"
#include "support.hpp"

namespace hanse {
namespace {

TEST(MakeRandom, HasTheShapeAskedFor) {
  const Dataset dataset = make_random({3, 5, 7}, 4, 11, 1);
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{3, 5, 7}));
  EXPECT_EQ(dataset.storage, Storage::kByte);
  EXPECT_EQ(dataset.features.size(), 3U * 5 * 7 * 11);
  EXPECT_EQ(dataset.size(), 11);
  EXPECT_EQ(dataset.classes, 4);
}

// A token takes as few bytes as the largest one needs; the numbers are the stream's.
TEST(MakeRandom, TokensTakeFewBytes) {
  const std::pair<int64_t, int64_t> cases[] = {{256, 1}, {257, 2}, {65536, 2}, {65537, 4}};
  for (const auto& [tokens, bytes] : cases) {
    const Dataset dataset = make_random({7}, 2, 50, 42, tokens);
    EXPECT_EQ(dataset.sample_bytes(), 7 * bytes) << tokens;
    RandomStream stream(42, Purpose::kData);
    for (int64_t i = 0; i < 350; ++i) {
      float value = -1;
      uint32_t token = 0;
      const std::byte* at = dataset.features.data() + i * bytes;
      std::memcpy(bytes == 4 ? static_cast<void*>(&value) : &token, at,
                  static_cast<std::size_t>(bytes));
      ASSERT_EQ(bytes == 4 ? value : static_cast<float>(token),
                static_cast<float>(stream.below(tokens)));
    }
    for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(dataset.labels[i], stream.below(2));
  }
}

// The definition in data/made-up.md, word for word.
TEST(MakeRandom, IsOneStreamFromItsStart) {
  const Dataset dataset = make_random({3}, 2, 5, 42);
  RandomStream stream(42, Purpose::kData);
  std::vector<uint64_t> words = {stream.next(), stream.next()};
  for (std::size_t i = 0; i < 15; ++i) {
    EXPECT_EQ(static_cast<uint8_t>(dataset.features[i]),
              static_cast<uint8_t>(words[i / 8] >> (8 * (i % 8))));
  }
  EXPECT_EQ(dataset.labels[0], 0);
  EXPECT_EQ(dataset.labels[1], 1);
  for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(dataset.labels[i], stream.below(2));
}

TEST(MakeRandom, SeedsDiffer) {
  EXPECT_EQ(make_random({8}, 10, 100, 5).features, make_random({8}, 10, 100, 5).features);
  EXPECT_NE(make_random({8}, 10, 100, 5).features, make_random({8}, 10, 100, 6).features);
  EXPECT_NE(make_random({8}, 10, 100, 5).labels, make_random({8}, 10, 100, 6).labels);
}

TEST(MakeRandom, EveryClassAppears) {
  for (const int64_t samples : {62, 63, 500}) {
    const Dataset dataset = make_random({1}, 62, samples, 3);
    const std::set<int32_t> seen(dataset.labels.begin(), dataset.labels.end());
    EXPECT_EQ(seen.size(), 62U);
    EXPECT_EQ(*seen.rbegin(), 61);
  }
}

TEST(MakeRandom, BytesAndLabelsAreUniform) {
  const Dataset dataset = make_random({28, 28}, 10, 2000, 9);
  std::vector<double> bytes(256), labels(10);
  for (const std::byte b : dataset.features) ++bytes[static_cast<std::size_t>(b)];
  for (const int32_t label : dataset.labels) ++labels[static_cast<std::size_t>(label)];
  for (const double count : bytes) EXPECT_NEAR(count, 6125, 5 * std::sqrt(6125.0));
  for (const double count : labels) EXPECT_NEAR(count, 200, 5 * std::sqrt(200.0));
}

TEST(MakeRandom, NoClassesMeansRegression) {
  const Dataset dataset = make_random({2}, 0, 1000, 1);
  EXPECT_TRUE(dataset.labels.empty());
  ASSERT_EQ(dataset.targets.size(), 1000U);
  double sum = 0;
  for (const float target : dataset.targets) {
    ASSERT_TRUE(target >= 0 && target < 1);
    sum += target;
  }
  EXPECT_NEAR(sum / 1000, 0.5, 0.05);
}

TEST(MakeRandom, BadArgumentsAreRefused) {
  expect_invalid([] { make_random({}, 10, 5, 1); }, {"data.shape"});
  expect_invalid([] { make_random({3, 0}, 10, 5, 1); }, {"extent 0", "data.shape"});
  expect_invalid([] { make_random({int64_t{1} << 40, 1 << 30}, 10, 5, 1); }, {"data.shape"});
  expect_invalid([] { make_random({int64_t{1} << 62}, 10, 5, 1); }, {"data.shape"});
  expect_invalid([] { make_random({3}, 10, 0, 1); }, {"0 random samples"});
  expect_invalid([] { make_random({3}, -1, 5, 1); }, {"data.classes is -1"});
}

TEST(ReadDataset, UnknownKindNamesTheNearest) {
  expect_invalid([] { read_dataset({.kind = "cvs"}, 1, 1, 1); },
                 {"'cvs'", "did you mean 'csv'",
                  "idx, images, cifar, npz, csv, tff, leaf, text, hanse, "
                  "random"});
}

TEST(ReadDataset, RandomTakesTheSamplesAskedFor) {
  const DataOptions options{.kind = "random", .labels = {}, .shape = {2, 2}, .classes = 3};
  EXPECT_EQ(read_dataset(options, 17, 3, 4).features, make_random({2, 2}, 3, 51, 4).features);
}

TEST(ReadDataset, KeepsTheLabelsAskedFor) {
  const DataOptions options{.kind = "random", .labels = {2}, .shape = {1}, .classes = 3};
  const Dataset dataset = read_dataset(options, 10, 3, 4);
  EXPECT_EQ(dataset.classes, 1);
  EXPECT_LT(dataset.size(), 30);
}

TEST(KeepLabels, RenumbersInTheOrderGiven) {
  Dataset all = numbered_dataset({0, 1, 2, 3, 2, 1, 0, 3}, 4);
  all.groups = {0, 1, 2, 2, 1, 0, 0, 3};
  all.group_names = {"a", "b", "c", "d"};
  const Dataset kept = keep_labels(all, {3, 1});
  EXPECT_EQ(kept.labels, (std::vector<int32_t>{1, 0, 1, 0}));
  EXPECT_EQ(kept.classes, 2);
  std::vector<float> values(4);
  ASSERT_EQ(kept.features.size(), sizeof(float) * values.size());
  std::memcpy(values.data(), kept.features.data(), kept.features.size());
  EXPECT_EQ(values, (std::vector<float>{1, 3, 5, 7}));
  EXPECT_EQ(kept.groups, (std::vector<int64_t>{1, 2, 0, 3}));
  EXPECT_EQ(kept.class_names, (std::vector<std::string>{"3", "1"}));
  EXPECT_TRUE(keep_labels(all, {0, 1}).class_names.empty());
  all.class_names = {"p", "q", "r", "s"};
  EXPECT_EQ(keep_labels(all, {3, 1}).class_names, (std::vector<std::string>{"s", "q"}));
}

TEST(KeepLabels, TestSamplesStayBehindTheOthers) {
  Dataset all = numbered_dataset({0, 1, 2, 0, 1, 2, 2}, 3);
  for (const auto& [before, after] : {std::pair{-1, -1}, {0, 0}, {3, 2}, {4, 2}, {5, 3}, {7, 5}}) {
    all.test_begin = before;
    EXPECT_EQ(keep_labels(all, {2, 1}).test_begin, after) << before;
  }
}

TEST(KeepLabels, DropsClientsWithoutSamples) {
  Dataset all = numbered_dataset({0, 1, 0, 1, 0}, 2);
  all.groups = {0, 1, 2, 3, 2};
  all.group_names = {"a", "b", "c", "d"};
  const Dataset kept = keep_labels(all, {0});
  EXPECT_EQ(kept.group_names, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(kept.groups, (std::vector<int64_t>{0, 1, 1}));
}

TEST(KeepLabels, WideSamplesMoveWhole) {
  Dataset all = make_random({3, 5}, 3, 50, 8);
  const Dataset kept = keep_labels(all, {1});
  std::size_t at = 0;
  for (std::size_t i = 0; i < 50; ++i) {
    if (all.labels[i] != 1) continue;
    for (std::size_t v = 0; v < 15; ++v) {
      ASSERT_EQ(kept.features[at * 15 + v], all.features[i * 15 + v]);
    }
    ++at;
  }
  EXPECT_EQ(static_cast<std::size_t>(kept.size()), at);
}

TEST(KeepLabels, BadLabelsAreRefused) {
  const Dataset dataset = numbered_dataset({0, 2, 0}, 3);
  expect_invalid([&] { keep_labels(dataset, {0, 3}); }, {"class 3", "data.labels", "0 to 2"});
  expect_invalid([&] { keep_labels(dataset, {-1}); }, {"class -1"});
  expect_invalid([&] { keep_labels(dataset, {2, 2}); }, {"class 2 stands twice"});
  expect_invalid([&] { keep_labels(dataset, {1}); }, {"no sample"});
  expect_invalid([&] { keep_labels(regression_dataset(3), {0}); }, {"regression"});
}

}  // namespace
}  // namespace hanse
