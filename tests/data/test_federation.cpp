#include <cstring>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/comm/forwarding_communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/data/kinds.hpp"
#include "support.hpp"
#include "support/data_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

const std::vector<int64_t> kShapes[] = {{1}, {7}, {1, 5, 13}, {1, 28, 28}};

DataOptions random_data(const std::vector<int64_t>& shape, int64_t classes = 10) {
  return {.kind = "random", .shape = shape, .classes = classes};
}

// Sample i of the data set, as floats; slow and obvious.
std::vector<float> sample_of(const Dataset& dataset, int64_t i) {
  std::vector<float> values;
  for (int64_t v = 0; v < dataset.sample_values(); ++v) {
    const auto at = static_cast<std::size_t>(i * dataset.sample_values() + v);
    if (dataset.storage == Storage::kByte) {
      values.push_back(static_cast<float>(static_cast<uint8_t>(dataset.features[at])) *
                       (1.0F / 255.0F));
    } else if (dataset.storage == Storage::kToken16) {
      uint16_t token;
      std::memcpy(&token, &dataset.features[at * sizeof token], sizeof token);
      values.push_back(token);
    } else {
      float value;
      std::memcpy(&value, &dataset.features[at * sizeof(float)], sizeof value);
      values.push_back(value);
    }
  }
  return values;
}

// The federation's samples, from the parts it is made of.
struct Reference {
  Reference(const DataOptions& data, const FederationOptions& federation, uint64_t seed)
      : dataset(read_dataset(data, federation.clients, federation.samples, seed)),
        partition(partition_samples(dataset, federation, seed)) {
    split_train_test(partition, dataset, data.test_fraction, seed);
    split_validation(partition, dataset, {}, data.validation_fraction, seed);
  }
  std::vector<float> rows(const std::vector<int64_t>& places) const {
    std::vector<float> all;
    for (const int64_t place : places) {
      const auto row = sample_of(dataset, partition.order[static_cast<std::size_t>(place)]);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }
  Dataset dataset;
  Partition partition;
};

std::vector<float> copied(const Federation& federation, SampleRange range) {
  std::vector<float> out(static_cast<std::size_t>(range.size() * federation.sample_values()), -1);
  federation.copy(range, out.data());
  return out;
}

std::vector<float> gathered(const Federation& federation, int64_t begin,
                            const std::vector<int32_t>& order) {
  std::vector<float> out(order.size() * static_cast<std::size_t>(federation.sample_values()), -1);
  federation.gather(begin, order, out.data());
  return out;
}

std::vector<int64_t> places(SampleRange range) {
  std::vector<int64_t> all;
  for (int64_t i = range.begin; i < range.end; ++i) all.push_back(i);
  return all;
}

void expect_equal(const Federation& federation, const Reference& reference) {
  const Partition& partition = reference.partition;
  ASSERT_EQ(federation.clients(), partition.clients());
  EXPECT_EQ(federation.samples(), partition.offsets.back());
  EXPECT_EQ(federation.sample_shape(), reference.dataset.shape);
  EXPECT_EQ(federation.classes(), reference.dataset.classes);
  int64_t train_samples = 0;
  for (int64_t c = 0; c < federation.clients(); ++c) {
    const auto at = static_cast<std::size_t>(c);
    EXPECT_EQ(federation.train(c).begin, partition.offsets[at]);
    EXPECT_EQ(federation.train(c).end, partition.train_end[at]);
    train_samples += federation.train(c).size();
    EXPECT_EQ(copied(federation, federation.train(c)), reference.rows(places(federation.train(c))));
    EXPECT_EQ(copied(federation, federation.test(c)), reference.rows(places(federation.test(c))));
    if (partition.validation.empty()) continue;
    EXPECT_EQ(federation.validation(c).begin, partition.train_end[at]);
    EXPECT_EQ(federation.validation(c).size(), partition.validation[at]);
  }
  EXPECT_EQ(federation.train_samples(), train_samples);
  for (std::size_t i = 0; i < partition.order.size(); ++i) {
    const auto sample = static_cast<std::size_t>(partition.order[i]);
    if (federation.classes() > 0) {
      ASSERT_EQ(federation.labels()[i], reference.dataset.labels[sample]);
    } else {
      ASSERT_EQ(federation.targets()[i], reference.dataset.targets[sample]);
    }
  }
}

TEST(Federation, HasTokensOfTwoBytes) {
  DataOptions data = random_data({9}, 3);
  data.tokens = 5000;
  const FederationOptions options{.clients = 4, .samples = 13};
  const Reference reference(data, options, 5);
  ASSERT_EQ(reference.dataset.storage, Storage::kToken16);
  const auto host = make_single_communicator();
  expect_equal(Federation::load(data, options, 5, *host), reference);
}

class FederationOnRanks : public testing::TestWithParam<int> {};

TEST_P(FederationOnRanks, EveryRankSeesTheSameMemory) {
  DataOptions data = random_data({3, 5});
  data.validation_fraction = 2;
  const FederationOptions options{
      .clients = 13, .partition = "dirichlet", .samples = 11, .min_samples = 5};
  const Reference reference(data, options, 5);
  std::mutex mutex;
  std::set<const int32_t*> addresses;
  std::set<uint64_t> digests;
  run_threads(GetParam(), [&](Communicator& comm) {
    const auto host = comm.split(kByHost);
    const Federation federation = Federation::load(data, options, 5, *host);
    const std::lock_guard lock(mutex);
    expect_equal(federation, reference);
    addresses.insert(federation.labels().data());
    digests.insert(federation.digest());
  });
  EXPECT_EQ(addresses.size(), 1U);
  EXPECT_EQ(digests.size(), 1U);
}

TEST_P(FederationOnRanks, ABadInputIsAgreedOn) {
  std::mutex mutex;
  std::vector<std::string> errors;
  run_threads(GetParam(), [&](Communicator& comm) {
    const FederationOptions options{.clients = 7, .partition = "by-label", .samples = 11};
    try {
      Federation::load(random_data({2}), options, 1, comm);
      ADD_FAILURE() << "no error on rank " << comm.rank();
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.exit_status(), ExitStatus::kBadInput);
      const std::lock_guard lock(mutex);
      errors.push_back(error.what());
    }
    comm.barrier();  // the ranks are still in step
  });
  ASSERT_EQ(errors.size(), static_cast<std::size_t>(GetParam()));
  for (const auto& error : errors) {
    EXPECT_EQ(error, errors.front());
    EXPECT_NE(error.find("federation.clients"), std::string::npos) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, FederationOnRanks, testing::Values(1, 2, 3));

Federation load_alone(const DataOptions& data, const FederationOptions& options, uint64_t seed) {
  return Federation::load(data, options, seed, *make_single_communicator());
}

// A communicator whose last rank finds no room.
class NoRoom final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  std::shared_ptr<std::byte> allocate_shared(int64_t bytes) override {
    auto memory = ForwardingCommunicator::allocate_shared(bytes);
    if (rank() == size() - 1) throw IoError("no room for shared memory", "test");
    return memory;
  }
};

TEST(Federation, AFailedAllocationIsAgreedOn) {
  run_threads(3, [](Communicator& comm) {
    NoRoom full(comm);
    const FederationOptions options{.clients = 7, .partition = "iid", .samples = 11};
    try {
      Federation::load(random_data({2}), options, 1, full);
      ADD_FAILURE() << "no error on rank " << comm.rank();
    } catch (const AgreedError& error) {
      EXPECT_NE(std::string(error.what()).find("no room"), std::string::npos);
      EXPECT_EQ(error.exit_status(), ExitStatus::kFailed);
    }
    comm.barrier();
  });
}

TEST(Federation, GatherTakesRowsInOrder) {
  for (const auto& shape : kShapes) {
    const DataOptions data = random_data(shape);
    const FederationOptions options{.clients = 5, .partition = "iid", .samples = 20};
    const Federation federation = load_alone(data, options, 3);
    const Reference reference(data, options, 3);
    for (int64_t c = 0; c < 5; ++c) {
      const int64_t begin = federation.train(c).begin;
      for (const std::vector<int32_t>& order :
           {std::vector<int32_t>{}, {0}, {15}, {3, 0, 3, 15, 7}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}}) {
        std::vector<int64_t> rows;
        for (const int32_t row : order) rows.push_back(begin + row);
        EXPECT_EQ(gathered(federation, begin, order), reference.rows(rows));
      }
    }
  }
}

TEST(Federation, GatherWritesNothingElse) {
  const Federation federation =
      load_alone(random_data({1, 5, 13}), {.clients = 2, .partition = "iid", .samples = 10}, 3);
  std::vector<float> out(3 * 65 + 2, -7);
  federation.gather(0, std::vector<int32_t>{2, 1, 0}, out.data() + 1);
  EXPECT_EQ(out.front(), -7);
  EXPECT_EQ(out.back(), -7);
  for (std::size_t i = 1; i + 1 < out.size(); ++i) EXPECT_GE(out[i], 0) << i;
}

TEST(Federation, AllByteValuesAreExact) {
  TempFolder folder;
  std::string images("\0\0\x08\x03\0\0\0\2\0\0\0\x10\0\0\0\x08", 16);
  for (int value = 0; value < 256; ++value) images += static_cast<char>(value);
  folder.write("train-images-idx3-ubyte", images);
  folder.write("train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\2\0\1", 10));
  DataOptions data{.kind = "idx", .path = folder.path()};
  data.test_fraction = 0;
  const Federation federation = load_alone(data, {.clients = 1, .partition = "iid"}, 1);
  const auto values = copied(federation, {0, 2});
  const bool swapped = federation.labels()[0] == 1;
  for (std::size_t v = 0; v < 256; ++v) {
    const float byte = static_cast<float>(v);
    EXPECT_EQ(values[swapped ? (v + 128) % 256 : v], byte * (1.0F / 255.0F));
  }
}

class CsvFederation : public testing::Test {
 protected:
  CsvFederation() {
    data_ = {.kind = "csv", .path = data_folder("/tiny.csv"), .client_column = "site"};
    data_.test_fraction = 0.5;
  }
  DataOptions data_;
  FederationOptions options_{.clients = 100, .partition = "by-column"};
};

TEST_F(CsvFederation, ClientsComeFromTheColumn) {
  const Federation federation = load_alone(data_, options_, 1);
  ASSERT_EQ(federation.clients(), 2);
  EXPECT_EQ(federation.samples(), 4);
  EXPECT_EQ(federation.train(0).size(), 1);
  EXPECT_EQ(federation.test(1).size(), 1);
  expect_equal(federation, Reference(data_, options_, 1));
  const auto all = copied(federation, {0, 4});
  const std::vector<std::vector<float>> north = {{0.5F, -2, -0.125F, 7}, {-0.125F, 7, 0.5F, -2}};
  EXPECT_TRUE(std::vector<float>(all.begin(), all.begin() + 4) == north[0] ||
              std::vector<float>(all.begin(), all.begin() + 4) == north[1]);
  EXPECT_EQ(gathered(federation, 2, {1, 0, 1}),
            (std::vector<float>{all[6], all[7], all[4], all[5], all[6], all[7]}));
}

TEST_F(CsvFederation, RegressionHasTargetsAndNoLabels) {
  data_.task = "regression";
  const Federation federation = load_alone(data_, options_, 1);
  EXPECT_EQ(federation.classes(), 0);
  EXPECT_TRUE(federation.labels().empty());
  EXPECT_EQ(federation.targets().size(), 4U);
  expect_equal(federation, Reference(data_, options_, 1));
}

TEST(Federation, ArraysStartOnTheirOwnCacheLines) {
  const Federation federation =
      load_alone(random_data({7}), {.clients = 3, .partition = "iid", .samples = 5}, 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(federation.labels().data()) % 64, 0U);
  EXPECT_EQ(federation.bytes(), 128 + 64 + 3 * 32);  // features, labels, ranges of clients
}

TEST(Federation, WithoutATestPartTrainingSamplesAreTheTest) {
  DataOptions data = random_data({2});
  data.test_fraction = 0;
  const FederationOptions options{.clients = 3, .partition = "iid", .samples = 4};
  const Federation all = load_alone(data, options, 1);
  EXPECT_EQ(all.train_samples(), 12);
  EXPECT_EQ(all.test(1).begin, 4);
  EXPECT_EQ(all.test(1).end, 8);
  data.test_fraction = 0.2;  // one sample a client
  const Federation tiny = load_alone(data, {.clients = 3, .partition = "iid", .samples = 1}, 1);
  EXPECT_EQ(tiny.train(2).size(), 1);
  EXPECT_EQ(tiny.test(2).begin, tiny.train(2).begin);
  EXPECT_EQ(tiny.test(2).size(), 1);
}

TEST(Federation, SizesUsesPartOfTheSamples) {
  const DataOptions data = random_data({2});
  FederationOptions options{.clients = 20, .partition = "sizes", .samples = 100};
  const Federation federation = load_alone(data, options, 1);
  EXPECT_LT(federation.samples(), 2000);
  EXPECT_EQ(federation.labels().size(), static_cast<std::size_t>(federation.samples()));
  expect_equal(federation, Reference(data, options, 1));
}

TEST(Federation, RegressionOnRandomData) {
  const DataOptions data = random_data({3}, 0);
  const FederationOptions options{.clients = 4, .partition = "power-law", .samples = 9};
  expect_equal(load_alone(data, options, 2), Reference(data, options, 2));
}

TEST(Federation, TheDigestTellsDataApart) {
  const FederationOptions options{.clients = 4, .partition = "iid", .samples = 9};
  const auto digest = [&](const DataOptions& data, uint64_t seed) {
    return load_alone(data, options, seed).digest();
  };
  const uint64_t first = digest(random_data({2, 3}), 1);
  EXPECT_EQ(digest(random_data({2, 3}), 1), first);
  EXPECT_NE(digest(random_data({2, 3}), 2), first);
  EXPECT_NE(digest(random_data({3, 2}), 1), first);  // the same bytes in another shape
}

TEST(FederationView, HasItsClientsAsTheyAre) {
  DataOptions data = random_data({2, 3});
  data.test_fraction = 0.3;
  data.validation_fraction = 0.2;
  const FederationOptions options{.clients = 13,
                                  .partition = "power-law",
                                  .samples = 20,
                                  .held_out = 2,
                                  .validation_clients = 3};
  const Federation all = load_alone(data, options, 3);
  ASSERT_EQ(all.clients(), 8);
  const std::vector<int64_t> chosen{6, 0, 3, 9, 8, 11};
  const Federation view = all.of(chosen);
  EXPECT_EQ(view.clients(), 3);
  EXPECT_EQ(view.held_out(), 3);
  EXPECT_EQ(view.validation_clients(), 2);
  int64_t train_samples = 0, validation_samples = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto client = static_cast<int64_t>(i);
    const auto same = [&](auto get) { return get(view, client) == get(all, chosen[i]); };
    const auto range = [](auto which) {
      return [which](const Federation& of, int64_t one) {
        const SampleRange found = (of.*which)(one);
        return std::pair(found.begin, found.end);
      };
    };
    EXPECT_TRUE(same(range(&Federation::train))) << i;
    EXPECT_TRUE(same(range(&Federation::test))) << i;
    EXPECT_TRUE(same(range(&Federation::validation))) << i;
    EXPECT_EQ(view.has_test(client), all.has_test(chosen[i]));
    EXPECT_EQ(view.has_validation(client), all.has_validation(chosen[i]));
    EXPECT_EQ(is_for_validation(view, client), is_for_validation(all, chosen[i]));
    if (i >= 3) continue;
    train_samples += view.train(client).size();
    if (all.has_validation(chosen[i])) validation_samples += view.validation(client).size();
  }
  EXPECT_EQ(view.train_samples(), train_samples);
  EXPECT_EQ(view.validation_samples(), validation_samples);
  EXPECT_EQ(view.labels().data(), all.labels().data());  // nothing is copied
  EXPECT_EQ(view.samples(), all.samples());
  EXPECT_NE(view.digest(), all.digest());
  EXPECT_NE(view.digest(), all.of(std::vector<int64_t>{0, 6, 3, 9, 8, 11}).digest());
  EXPECT_EQ(view.digest(), all.of(chosen).digest());
  EXPECT_THROW(all.of(std::vector<int64_t>{0, 9, 1}), Error);
  EXPECT_THROW(all.of(std::vector<int64_t>{0, 12, 9}), Error);
}

TEST(FederationView, HasTheNamesOfItsClients) {
  DataOptions data{.kind = "csv", .path = data_folder("/tiny.csv"), .client_column = "site"};
  const Federation all = load_alone(data, {}, 1);
  ASSERT_FALSE(all.names().clients.empty());
  const int64_t last = all.clients() - 1;
  const Federation view = all.of(std::vector<int64_t>{last, 0});
  EXPECT_EQ(client_label(view, 0), client_label(all, last));
  EXPECT_EQ(client_label(view, 1), client_label(all, 0));
  EXPECT_NE(client_label(view, 0), client_label(view, 1));
}

TEST(Federation, BadOptionsAreRefused) {
  const auto expect_bad = [](const DataOptions& data, const FederationOptions& options,
                             const std::string& part) {
    try {
      load_alone(data, options, 1);
      ADD_FAILURE() << "no error; expected " << part;
    } catch (const AgreedError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_EQ(error.exit_status(), ExitStatus::kBadInput);
    }
  };
  DataOptions data = random_data({2});
  expect_bad(data, {.clients = 0}, "0 clients");
  expect_bad(data, {.clients = 3, .samples = 0}, "of 0 samples");
  expect_bad(data, {.clients = int64_t{1} << 40, .samples = int64_t{1} << 40}, "too many");
  expect_bad({.kind = "csv", .path = data_folder("/tiny.csv")}, {.clients = 5},
             "tiny.csv:2, column 'site'");
  expect_bad({.kind = "csv", .path = data_folder("/tiny.csv"), .client_column = "site"},
             {.clients = 5, .partition = "iid"}, "more clients (5) than samples (4)");
  data.test_fraction = 1.5;
  expect_bad(data, {.clients = 3}, "data.test-fraction");
}

TEST(Federation, FashionMnistInShards) {
  const DataOptions data;
  if (!std::filesystem::exists(data.path)) GTEST_SKIP() << data.path << " is not installed";
  const FederationOptions options{.clients = 100, .partition = "shards"};
  const Federation federation = load_alone(data, options, 1);
  EXPECT_EQ(federation.samples(), 70000);
  EXPECT_EQ(federation.train_samples(), 56000);
  EXPECT_EQ(federation.sample_shape(), (std::vector<int64_t>{1, 28, 28}));
  EXPECT_GE(federation.bytes(), 70000 * 788);
}

}  // namespace
}  // namespace hanse
