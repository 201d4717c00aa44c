#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/data/partition.hpp"
#include "support.hpp"
#include "support/data_folder.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Rows = std::vector<std::vector<float>>;

Dataset table(const Rows& rows) {
  Dataset dataset{.shape = {static_cast<int64_t>(rows[0].size())}, .storage = Storage::kFloat};
  dataset.labels.assign(rows.size(), 0);
  dataset.classes = 1;
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  dataset.features.resize(all.size() * sizeof(float));
  std::memcpy(dataset.features.data(), all.data(), dataset.features.size());
  return dataset;
}

std::vector<float> column(const Dataset& dataset, std::size_t d) {
  std::vector<float> values(dataset.features.size() / sizeof(float));
  std::memcpy(values.data(), dataset.features.data(), dataset.features.size());
  std::vector<float> result;
  for (std::size_t i = d; i < values.size(); i += static_cast<std::size_t>(dataset.shape[0])) {
    result.push_back(values[i]);
  }
  return result;
}

// Nobody is held out.
void standardize_all(Dataset& dataset, const Partition& partition, Standardize scope) {
  standardize(dataset, partition, std::vector<char>(to_index(partition.clients())), scope);
}

// Client 0 trains on samples 3 and 0 and tests on 2; client 1 trains on 1 and 5 and tests on 4.
const Partition kTwoClients{.order = {3, 0, 2, 1, 5, 4}, .offsets = {0, 3, 6}, .train_end = {2, 5}};

TEST(Standardize, EachClientByItsOwnTrainingSamples) {
  // Column 0: client 0 has 1 and 5 (mean 3, deviation 2), client 1 10 and 30 (mean 20, deviation
  // 10). Column 1 differs from it, so that columns cannot be swapped.
  Dataset dataset = table({{5, -1}, {10, 8}, {9, 7}, {1, -4}, {-10, 3}, {30, 2}});
  standardize_all(dataset, kTwoClients, Standardize::kClient);
  EXPECT_EQ(column(dataset, 0), (std::vector<float>{1, -1, 3, -1, -3, 1}));
  // Client 0: -1 and -4, mean -2.5, deviation 1.5; client 1: 8 and 2, mean 5, deviation 3.
  const auto second = column(dataset, 1);
  const std::vector<float> expected{1, 1, 9.5F / 1.5F, -1, -2.0F / 3.0F, -1};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(second[i], expected[i]) << i;
}

TEST(Standardize, AllByTheTrainingSamplesOfAll) {
  // Training samples 3, 0, 1, 5 have -3, -1, 1, 3: mean 0, variance 5. Test samples 2 and 4 are far
  // outside and change neither.
  Dataset dataset = table({{-1}, {1}, {100}, {-3}, {-1000}, {3}});
  standardize_all(dataset, kTwoClients, Standardize::kAll);
  const float unit = 1 / std::sqrt(5.0F);
  const std::vector<float> expected{-unit, unit, 100 * unit, -3 * unit, -1000 * unit, 3 * unit};
  const auto found = column(dataset, 0);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(found[i], expected[i]) << i;
}

// Client 0 trains on -3 and -1, mean -2, deviation 1; client 1, with 1 and 3, changes neither.
TEST(Standardize, ClientsHeldOutAreScaledAndNotMeasured) {
  Dataset dataset = table({{-1}, {1}, {100}, {-3}, {-1000}, {3}});
  standardize(dataset, kTwoClients, {0, 1}, Standardize::kAll);
  EXPECT_EQ(column(dataset, 0), (std::vector<float>{1, 3, 102, -1, -998, 5}));
  Dataset own = table({{-1}, {1}, {100}, {-3}, {-1000}, {3}});
  standardize(own, kTwoClients, {0, 1}, Standardize::kClient);
  EXPECT_EQ(column(own, 0), (std::vector<float>{1, -1, 102, -1, -1002, 1}));
}

// 0.1 is not a float, and the mean of many has a rounding error: divided by that, nonsense.
TEST(Standardize, AConstantColumnIsOnlyCentred) {
  for (const Standardize scope : {Standardize::kClient, Standardize::kAll}) {
    Rows rows(1001, {0.1F, 0});
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i][1] = static_cast<float>(i);
    rows.back()[0] = 2.1F;  // the test sample
    Partition partition{.offsets = {0, 1001}, .train_end = {1000}};
    for (int64_t i = 0; i < 1001; ++i) partition.order.push_back(i);
    Dataset dataset = table(rows);
    standardize_all(dataset, partition, scope);
    const auto found = column(dataset, 0);
    for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(found[i], 0.0F) << i;
    EXPECT_FLOAT_EQ(found.back(), 2.0F);
    EXPECT_NEAR(column(dataset, 1)[0], -499.5 / std::sqrt((1e6 - 1) / 12), 1e-6);
  }
}

TEST(Standardize, AClientOfOneSampleGetsZeros) {
  Dataset dataset = table({{7, -3}, {1, 1}, {3, 5}});
  standardize_all(dataset, {.order = {0, 1, 2}, .offsets = {0, 1, 3}, .train_end = {1, 3}},
                  Standardize::kClient);
  EXPECT_EQ(column(dataset, 0), (std::vector<float>{0, -1, 1}));
  EXPECT_EQ(column(dataset, 1), (std::vector<float>{0, -1, 1}));
}

TEST(Standardize, LeavesAloneWhatIsNobodys) {
  Dataset dataset = table({{7}, {1}, {3}});
  standardize_all(dataset, {.order = {2, 1}, .offsets = {0, 2}, .train_end = {2}},
                  Standardize::kAll);
  EXPECT_EQ(column(dataset, 0), (std::vector<float>{7, -1, 1}));
  Dataset same = table({{7}, {1}, {3}});
  standardize_all(same, {.order = {2, 1}, .offsets = {0, 2}, .train_end = {2}}, Standardize::kNone);
  EXPECT_EQ(column(same, 0), (std::vector<float>{7, 1, 3}));
}

// float32 has one value for all of column 0, and those of column 1 as they are.
TEST(Standardize, PreciseFeaturesAreCentredInFloat64) {
  for (const Standardize scope : {Standardize::kClient, Standardize::kAll}) {
    Dataset dataset = table({{1.7e12F, 5}, {1.7e12F, 9}, {1.7e12F, 1}, {1.7e12F, 2}});
    Dataset plain = table({{4, 5}, {8, 9}, {0, 1}, {1, 2}});
    dataset.precise = {{.feature = 0, .values = {1.7e12 + 5, 1.7e12 + 9, 1.7e12 + 1, 1.7e12 + 2}}};
    const Partition partition{.order = {2, 0, 1, 3}, .offsets = {0, 4}, .train_end = {3}};
    standardize_all(dataset, partition, scope);
    standardize_all(plain, partition, scope);
    EXPECT_EQ(column(dataset, 0), column(plain, 0));
    EXPECT_EQ(column(dataset, 1), column(plain, 1));
  }
}

// One client has large numbers, the other one small ones.
TEST(Standardize, PreciseFeaturesOfEachClient) {
  Dataset dataset = table({{1e18F}, {1}, {1e18F}, {3}});
  dataset.precise = {{.feature = 0, .values = {1e18, 1, 1e18 + 256, 3}}};
  standardize_all(dataset, {.order = {0, 2, 1, 3}, .offsets = {0, 2, 4}, .train_end = {2, 4}},
                  Standardize::kClient);
  EXPECT_EQ(column(dataset, 0), (std::vector<float>{-1, -1, 1, 1}));
}

// Samples of other classes go, from both.
TEST(Standardize, PreciseFeaturesFollowTheKeptClasses) {
  Dataset dataset = table({{1}, {2}, {3}});
  dataset.labels = {0, 1, 0};
  dataset.classes = 2;
  dataset.precise = {{.feature = 0, .values = {1, 2, 3}}};
  EXPECT_EQ(keep_labels(dataset, {0}).precise[0].values, (std::vector<double>{1, 3}));
}

TEST(Standardize, RefusesWhatItCannot) {
  const Partition partition{.order = {0, 1, 2}, .offsets = {0, 3}, .train_end = {2}};
  Dataset pixels{.shape = {1}, .storage = Storage::kByte, .features = {{}, {}, {}}};
  for (const Standardize scope : {Standardize::kClient, Standardize::kAll}) {
    expect_invalid([&] { standardize_all(pixels, partition, scope); },
                   {"data.standardize", "bytes"});
  }
  EXPECT_NO_THROW(standardize_all(pixels, partition, Standardize::kNone));
  Dataset outlier = table({{0}, {1e-30F}, {1e30F}});
  expect_invalid([&] { standardize_all(outlier, partition, Standardize::kClient); },
                 {"data.standardize", "sample 2"});
}

TEST(Standardize, TheFederationHoldsTheResult) {
  DataOptions data{.kind = "csv", .path = data_folder("/tiny.csv"), .client_column = "site"};
  data.test_fraction = 0;
  data.standardize = Standardize::kClient;
  const auto alone = make_single_communicator();
  const auto federation = Federation::load(data, {.partition = "by-column"}, 1, *alone);
  std::vector<float> rows(8);
  federation.copy({0, 4}, rows.data());
  for (std::size_t c = 0; c < 2; ++c) {  // two samples a client: they are -1 and 1 in each column
    for (std::size_t d = 0; d < 2; ++d) {
      EXPECT_NEAR(rows[4 * c + d] + rows[4 * c + 2 + d], 0, 1e-6);
      EXPECT_NEAR(std::abs(rows[4 * c + d]), 1, 1e-6);
    }
  }
  data.kind = "random";
  EXPECT_THROW(Federation::load(data, {}, 1, *alone), AgreedError);
}

// Samples of these clients, in the order of a shuffle; the last sample of all is held out.
Partition shuffled(int64_t samples, int64_t clients, uint64_t seed) {
  Partition partition{.order = {}, .offsets = {0}};
  for (int64_t i = 0; i + 1 < samples; ++i) partition.order.push_back(i);
  RandomStream(seed, Purpose::kPartition, 0, 0).shuffle(std::span(partition.order));
  partition.order.push_back(samples - 1);
  for (int64_t c = 1; c <= clients; ++c) {
    partition.offsets.push_back((samples - 1) * c / clients);
    partition.train_end.push_back(partition.offsets.back());
  }
  partition.offsets.push_back(samples);
  partition.train_end.push_back(samples);
  return partition;
}

// A client is a name for a set of samples: of all their training samples together the scales have
// the same bits, however they are divided and ordered.
TEST(Standardize, AllIsThatOfAnyPartition) {
  constexpr int64_t kSamples = 2500;
  Rows rows;
  PreciseFeature precise{.feature = 2, .values = {}};
  RandomStream draw(7, Purpose::kPartition, 1, 0);
  for (int64_t i = 0; i < kSamples; ++i) {
    const double exact = 1.6e9 + static_cast<double>(draw.below(1000)) / 3;
    precise.values.push_back(exact);
    rows.push_back({static_cast<float>(draw.normal()),
                    static_cast<float>(3e7 + std::exp(draw.normal())), static_cast<float>(exact)});
  }
  rows.back() = {1e9F, 1e9F, 1e9F};  // would move all means
  std::vector<Dataset> found;
  for (const int64_t clients : {1, 7, 2499}) {
    Dataset dataset = table(rows);
    dataset.precise = {precise};
    std::vector<char> held_out(to_index(clients) + 1);
    held_out.back() = 1;
    standardize(dataset, shuffled(kSamples, clients, static_cast<uint64_t>(clients)), held_out,
                Standardize::kAll);
    found.push_back(std::move(dataset));
  }
  EXPECT_EQ(found[1].features, found[0].features);
  EXPECT_EQ(found[2].features, found[0].features);
  const ValueScale& scale = found[0].record.preparations[0].scales[2];
  const std::span known = std::span(precise.values).first(kSamples - 1);
  double mean = 0, squares = 0;
  for (const double value : known) mean += (value - 1.6e9) / (kSamples - 1);
  for (const double value : known) {
    squares += (value - 1.6e9 - mean) * (value - 1.6e9 - mean) / (kSamples - 1);
  }
  EXPECT_NEAR(scale.origin - 1.6e9 + scale.mean, mean, 1e-9);
  EXPECT_NEAR(scale.deviation, std::sqrt(squares), 1e-9);
}

Federation channels(const std::string& normalize, std::vector<int64_t> shape = {2, 3, 5}) {
  DataOptions data;
  data.kind = "random";
  data.shape = std::move(shape);
  data.classes = 3;
  data.test_fraction = 0.4;
  data.normalize = normalize;
  FederationOptions options;
  options.clients = 4;
  options.samples = 9;
  return Federation::load(data, options, 5, *make_single_communicator());
}

std::vector<float> values_of(const Federation& federation, SampleRange range) {
  std::vector<float> values(static_cast<std::size_t>(range.size() * federation.sample_values()));
  federation.copy(range, values.data());
  return values;
}

// Large numbers that cancel: a plain sum depends on when the small ones are added.
TEST(Normalize, AllIsThatOfAnyPartition) {
  const TempFolder folder;
  DataOptions data{.kind = "csv", .test_fraction = 0, .shape = {1, 1, 2}};
  data.path = folder.write(
      "pictures.csv", "a,b,label\n3e17,3e17,0\n-3e17,-3e17,0\n1,5,1\n2,7,1\n3e17,1,0\n-3e17,2,1\n");
  data.normalize = "all";
  std::set<std::string> found;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const FederationOptions options{.clients = 1 + static_cast<int64_t>(seed % 4)};
    const auto federation = Federation::load(data, options, seed, *make_single_communicator());
    found.insert(features_text(*federation.names().features));
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found.begin()->find("channel,0,"), std::string::npos);
}

TEST(Normalize, EveryChannelByItsNumbers) {
  const Federation plain = channels("none"), scaled = channels("0.5,0.25,0.1,4");
  const auto before = values_of(plain, {0, plain.samples()});
  const auto after = values_of(scaled, {0, scaled.samples()});
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool first = i % 30 < 15;
    EXPECT_NEAR(after[i], first ? (before[i] - 0.5F) / 0.1F : (before[i] - 0.25F) / 4, 1e-5) << i;
  }
  std::vector<float> some(60);
  scaled.gather(3, std::vector<int32_t>{4, 1}, some.data());
  EXPECT_TRUE(std::equal(some.begin(), some.begin() + 30, after.begin() + 7 * 30));
  EXPECT_TRUE(std::equal(some.begin() + 30, some.end(), after.begin() + 4 * 30));
}

TEST(Normalize, ByAllTrainingSamples) {
  const Federation federation = channels("all");
  double sums[2] = {0, 0}, squares[2] = {0, 0};
  for (int64_t client = 0; client < 4; ++client) {
    const auto values = values_of(federation, federation.train(client));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto x = static_cast<double>(values[i]);
      sums[i % 30 / 15] += x;
      squares[i % 30 / 15] += x * x;
    }
  }
  const auto n = static_cast<double>(15 * federation.train_samples());
  for (const int c : {0, 1}) {
    EXPECT_NEAR(sums[c] / n, 0, 1e-6);
    EXPECT_NEAR(squares[c] / n, 1, 1e-5);
  }
}

TEST(Normalize, RefusesWhatDoesNotFit) {
  expect_error<AgreedError>([] { channels("all", {12}); },
                            {"{12} are no images", "data.normalize"});
  expect_error<AgreedError>([] { channels("0.5,0.5"); },
                            {"2 numbers for images of 2 channels", "data.normalize"});
  expect_error<AgreedError>([] { channels("0.5,0.5,1,0"); }, {"deviation 0 is not positive"});
  expect_error<AgreedError>([] { channels("0.5,a,1,1"); }, {"'a'", "data.normalize"});
}

}  // namespace
}  // namespace hanse
