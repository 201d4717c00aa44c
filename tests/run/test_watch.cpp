// What may choose the best model and end a run, of data where some metrics are never numbers.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/job/job.hpp"
#include "run/execute/watch.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class WatchTest : public testing::Test {
 protected:
  // Clients a, b, ... with eight samples each, whose labels are the digits.
  Federation federation(const std::vector<std::string>& labels) {
    std::ofstream table(folder_ / "table.csv");
    table << "site,x,label\n";
    for (std::size_t c = 0; c < labels.size(); ++c) {
      for (const char label : labels[c]) table << char('a' + c) << ",0.5," << label << '\n';
    }
    table.close();
    job_.data.kind = "csv";
    job_.data.path = folder_ / "table.csv";
    job_.data.client_column = "site";
    return Federation::load(job_.data, job_.federation, 1, *comm_);
  }
  Watch watch(const Federation& federation) { return Watch(job_, true, federation); }
  void refuse(const Federation& data, const std::string& best,
              std::initializer_list<std::string> parts) {
    job_.evaluate.best = best;
    expect_error<InvalidArgument>([&] { watch(data); }, parts);
    const std::string target = best + ">=0.5";
    job_.evaluate.best.clear();
    job_.run.target = target;
    expect_error<InvalidArgument>([&] { watch(data); }, {"run.target"});
    job_.run.target.clear();
  }

  ScratchFolder folder_;
  std::unique_ptr<Communicator> comm_ = make_single_communicator();
  Job job_;
};

TEST_F(WatchTest, MetricsThatNoClientHasAreRefused) {
  const Federation one = federation({"00000000", "11111111", "00000000"});
  for (const std::string name : {"auroc", "auroc_worst10", "auroc_gap"}) {
    refuse(one, name, {"'" + name + "' has no value", "both classes"});
  }
  job_.evaluate.best = "auroc_left_out";  // a number of any data
  EXPECT_NO_THROW(watch(one));
  refuse(one, "held_out_loss_mean", {"no evaluation has", "federation.held-out"});
  refuse(one, "common_loss", {"no evaluation has", "no common test set"});
  refuse(one, "accuracy_men", {"no evaluation has", "did you mean 'accuracy_mean'"});
}

TEST_F(WatchTest, OneClientWithBothClassesIsEnough) {
  job_.data.test_fraction = 0;  // all samples are evaluated
  const Federation both = federation({"00000000", "00001111", "11111111"});
  job_.evaluate.best = "auroc";
  EXPECT_NO_THROW(watch(both));
}

TEST_F(WatchTest, TheSamplesThatAreEvaluatedDecide) {
  job_.data.test_fraction = 1;  // one of each client: never both classes
  const Federation data = federation({"00001111", "00001111"});
  refuse(data, "auroc", {"both classes"});
  job_.data.validation_fraction = 5;  // of seven: both classes
  job_.evaluate.on = EvaluateOn::kBoth;
  const Federation with_validation = federation({"00001111", "00001111"});
  job_.evaluate.best = "auroc";  // of the validation samples
  EXPECT_NO_THROW(watch(with_validation));
}

TEST_F(WatchTest, F1NeedsSamplesOfItsClass) {
  job_.data.test_fraction = 0;
  job_.evaluate.metrics = "f1,balanced-accuracy";
  const Federation both = federation({"00000000", "00001111"});
  job_.evaluate.best = "f1";
  EXPECT_NO_THROW(watch(both));
  job_.data.test_fraction = 1;
  // Two classes are there, and the test samples of the only client that has class 1 may lack it.
  const Federation zeros = federation({"00000000", "00000001"});
  bool has_one = false;
  for (int64_t c = 0; c < 2; ++c) {
    for (const int32_t label : labels_of(zeros, zeros.test(c))) has_one = has_one || label == 1;
  }
  if (has_one) GTEST_SKIP() << "the split has put the only sample of class 1 into the test part";
  refuse(zeros, "f1", {"class 1"});
  job_.evaluate.best = "balanced_accuracy";
  EXPECT_NO_THROW(watch(zeros));
}

TEST_F(WatchTest, WhatComparesEvaluationsNeedsTwo) {
  const Federation data = federation({"00001111", "00001111"});
  job_.run.rounds = 10;
  job_.evaluate.every = 0;
  refuse(data, "train_loss_fell", {"compares two evaluations"});
  job_.evaluate.every = 10;
  refuse(data, "improved", {"compares two evaluations"});
  job_.evaluate.every = 5;
  job_.evaluate.best = "improved";
  EXPECT_NO_THROW(watch(data));
}

// The mean over clients of k right of 10 samples is k / 10 but for its last bits.
TEST_F(WatchTest, ATargetThatIsReachedExactlyIsReached) {
  const Federation data = federation({"00001111", "00001111"});
  job_.evaluate.best = "accuracy_mean";
  for (int64_t clients = 1; clients <= 30; ++clients) {
    for (int64_t k = 1; k <= 10; ++k) {
      double sum = 0;
      for (int64_t client = 0; client < clients; ++client) sum += static_cast<double>(k) / 10;
      job_.run.target = fmt::format("accuracy_mean>={}", static_cast<double>(k) / 10);
      Watch watch = this->watch(data);
      EXPECT_TRUE(watch.observe(1, {{"accuracy_mean", sum / static_cast<double>(clients)}}));
      EXPECT_NE(watch.end(), "") << clients << " clients, " << k;
      EXPECT_FALSE(watch.observe(2, {{"accuracy_mean", static_cast<double>(k) / 10 + 1e-16}}));
    }
  }
}

TEST_F(WatchTest, EvaluationsWithoutANumberCountForNothing) {
  job_.data.test_fraction = 0;
  const Federation data = federation({"00001111", "00001111"});
  job_.evaluate.best = "auroc";
  job_.run.patience = 2;
  job_.run.target = "loss_mean<=0.1";
  Watch watch = this->watch(data);
  testing::internal::CaptureStderr();
  for (int64_t round = 1; round <= 5; ++round) {
    EXPECT_FALSE(watch.observe(round, {{"auroc", kNan}, {"loss_mean", kNan}}));
    EXPECT_EQ(watch.end(), "");
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("loss_mean is nan after round 1"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_TRUE(watch.observe(6, {{"auroc", 0.5}, {"loss_mean", 1}}));
  EXPECT_FALSE(watch.observe(7, {{"auroc", kNan}, {"loss_mean", 1}}));
  EXPECT_FALSE(watch.observe(8, {{"auroc", INFINITY}, {"loss_mean", 1}}));
  EXPECT_FALSE(watch.observe(9, {{"auroc", 0.4}, {"loss_mean", 1}}));
  EXPECT_EQ(watch.end(), "");
  EXPECT_FALSE(watch.observe(10, {{"auroc", 0.5}, {"loss_mean", 1}}));
  EXPECT_EQ(watch.end(), "auroc has not improved in 2 evaluations; best 0.5 in round 6");
  EXPECT_FALSE(watch.observe(11, {{"auroc", 0.5}, {"loss_mean", 0.05}}));
  EXPECT_EQ(watch.end(), "loss_mean <= 0.1 is reached");
}

TEST_F(WatchTest, OwnMetricsAreKnownFromTheFirstEvaluationOn) {
  const Federation data = federation({"00001111", "00001111"});
  job_.evaluate.best = "spread";
  expect_error<InvalidArgument>([&] { watch(data); }, {"no evaluation has the metric 'spread'"});
  job_.evaluate.metric.path = "metric.py";
  Watch own = watch(data);
  EXPECT_TRUE(own.observe(1, {{"loss_mean", 1}, {"spread", 2}}));
  Watch other = watch(data);
  expect_error<InvalidArgument>(
      [&] {
        other.observe(1, {{"loss_mean", 1}, {"spred", 2}});
      },
      {"'spread'", "did you mean 'spred'", "evaluate.best"});
}

}  // namespace
}  // namespace hanse
