#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "protocol/small_online.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// Samples of a client by features, with how often each comes.
using Bag = std::map<std::vector<float>, int>;

class StreamTest : public testing::Test {
 protected:
  Bag bag_of(SampleRange range) const {
    std::vector<float> features(static_cast<std::size_t>(range.size() * 4));
    federation_.copy(range, features.data());
    Bag bag;
    for (std::size_t i = 0; i < features.size(); i += 4) {
      ++bag[{features.begin() + static_cast<long>(i), features.begin() + static_cast<long>(i) + 4}];
    }
    return bag;
  }
  static void add(const StreamBatch& batch, Bag& bag) {
    for (std::size_t i = 0; i < batch.features.size(); i += 4) {
      ++bag[{batch.features.begin() + static_cast<long>(i),
             batch.features.begin() + static_cast<long>(i) + 4}];
    }
  }

  std::unique_ptr<Communicator> comm_ = make_single_communicator();
  Federation federation_ = online_federation({}, *comm_);
  StreamBatch batch_;
};

TEST_F(StreamTest, EverySampleComesOnce) {
  for (const int64_t horizon : {1, 4, 9}) {
    Stream stream(federation_, {.horizon = horizon}, 1);
    for (int64_t node = 0; node < federation_.clients(); ++node) {
      Bag train, test;
      int64_t least = 1000, most = 0;
      for (int64_t t = 1; t <= horizon; ++t) {
        stream.train(node, t, batch_);
        EXPECT_EQ(batch_.labels.size(), static_cast<std::size_t>(batch_.rows));
        least = std::min(least, batch_.rows);
        most = std::max(most, batch_.rows);
        add(batch_, train);
        stream.test(node, t, batch_);
        add(batch_, test);
      }
      EXPECT_EQ(train, bag_of(federation_.train(node)));
      EXPECT_EQ(test, bag_of(federation_.test(node)));
      EXPECT_LE(most - least, 1);
    }
  }
}

TEST_F(StreamTest, EveryPassIsInAnotherOrder) {
  Stream stream(federation_, {.horizon = 3, .passes = 3}, 1);
  Stream again(federation_, {.horizon = 3, .passes = 3}, 1);
  StreamBatch other;
  for (int64_t node = 0; node < federation_.clients(); ++node) {
    std::vector<AlignedFloats> firsts;
    for (int64_t pass = 0; pass < 3; ++pass) {
      Bag train, test;
      for (int64_t t = 3 * pass + 1; t <= 3 * pass + 3; ++t) {
        stream.train(node, t, batch_);
        if (t % 3 == 1) firsts.push_back(batch_.features);
        add(batch_, train);
        again.train((node + 1) % federation_.clients(), 9, other);  // passes in any order
        again.train(node, t, other);
        EXPECT_EQ(batch_.features, other.features);
        stream.test(node, t, batch_);
        add(batch_, test);
      }
      EXPECT_EQ(train, bag_of(federation_.train(node)));
      EXPECT_EQ(test, bag_of(federation_.test(node)));
    }
    if (firsts[0].size() < 8) continue;  // few samples may come in the same order
    EXPECT_NE(firsts[0], firsts[1]);
    EXPECT_NE(firsts[1], firsts[2]);
  }
}

TEST_F(StreamTest, LabelsBelongToTheirSamples) {
  Stream stream(federation_, {.horizon = 3}, 1);
  const SampleRange range = federation_.train(2);
  std::vector<float> all(static_cast<std::size_t>(range.size() * 4));
  federation_.copy(range, all.data());
  for (int64_t t = 1; t <= 3; ++t) {
    stream.train(2, t, batch_);
    for (std::size_t r = 0; r < batch_.labels.size(); ++r) {
      const auto sample = std::search(all.begin(), all.end(), batch_.features.begin() + 4 * r,
                                      batch_.features.begin() + 4 * (r + 1));
      const auto place = static_cast<std::size_t>(range.begin + (sample - all.begin()) / 4);
      EXPECT_EQ(batch_.labels[r], federation_.labels()[place]);
    }
  }
}

TEST_F(StreamTest, OrderDependsOnSeedAndClient) {
  Stream one(federation_, {.horizon = 2}, 1);
  Stream other(federation_, {.horizon = 2}, 2);
  StreamBatch second;
  one.train(0, 1, batch_);
  other.train(0, 1, second);
  EXPECT_NE(batch_.features, second.features);
  Stream(federation_, {.horizon = 2}, 1).train(0, 1, second);
  EXPECT_EQ(batch_.features, second.features);
}

TEST_F(StreamTest, LabelsDriftFromClassToClass) {
  Stream stream(federation_, {.horizon = 5, .drift = Drift::kLabels}, 1);
  for (int64_t node = 0; node < federation_.clients(); ++node) {
    std::vector<int32_t> labels;
    for (int64_t t = 1; t <= 5; ++t) {
      stream.train(node, t, batch_);
      labels.insert(labels.end(), batch_.labels.begin(), batch_.labels.end());
    }
    EXPECT_TRUE(std::is_sorted(labels.begin(), labels.end()));
  }
}

TEST_F(StreamTest, SwapGivesTheNextNodesStreamInTheSecondHalf) {
  Stream plain(federation_, {.horizon = 5}, 1);
  Stream swapped(federation_, {.horizon = 5, .drift = Drift::kSwap}, 1);
  StreamBatch other;
  for (int64_t t = 1; t <= 5; ++t) {
    for (int64_t node = 0; node < 7; ++node) {
      const int64_t source = t <= 2 ? node : (node + 1) % 7;
      EXPECT_EQ(swapped.source(node, t), source);
      swapped.train(node, t, batch_);
      plain.train(source, t, other);
      EXPECT_EQ(batch_.features, other.features);
      swapped.test(node, t, batch_);
      plain.test(source, t, other);
      EXPECT_EQ(batch_.features, other.features);
    }
  }
}

TEST_F(StreamTest, WithoutTestSamplesTheTestBatchIsTheTrainingBatch) {
  const Federation all = online_federation({.test_fraction = 0}, *comm_);
  Stream stream(all, {.horizon = 4}, 1);
  StreamBatch test;
  for (int64_t t = 1; t <= 4; ++t) {
    stream.train(3, t, batch_);
    stream.test(3, t, test);
    EXPECT_EQ(batch_.features, test.features);
    EXPECT_TRUE(stream.tests_on_training(3, t));
  }
  EXPECT_FALSE(Stream(federation_, {.horizon = 4}, 1).tests_on_training(3, 1));
}

}  // namespace
}  // namespace hanse
