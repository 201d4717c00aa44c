// FedExP's step: by the paper's formula on the round's updates, with the same bits on any ranks.
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "federated/round_plan.hpp"
#include "hanse/protocol/extrapolation.hpp"
#include "protocol/tiny_training.hpp"

namespace hanse {
namespace {

TEST(Extrapolation, IsThePapersFactor) {
  // Two updates (3, 0) and (0, 4): sum c |D|^2 = 12.5, |D|^2 = 6.25.
  EXPECT_DOUBLE_EQ(extrapolation(12.5, 6.25, 0), 1);
  EXPECT_DOUBLE_EQ(extrapolation(12.5, 1.25, 0), 5);
  EXPECT_DOUBLE_EQ(extrapolation(12.5, 1.25, 1.25), 2.5);
  EXPECT_DOUBLE_EQ(extrapolation(1, 1, 0), 1) << "equal updates";
  EXPECT_DOUBLE_EQ(extrapolation(0, 0, 0), 1) << "no update";
}

// Hears what sum_i c_i |D_i|^2 is, with the weights of those who are left out given to the others.
class Heard final : public RoundPart {
 public:
  explicit Heard(double& squares) : squares_(squares) {}
  void trained(const TrainedRound& round) override {
    double sum = 0, there = 0, all = 0;
    for (const Assignment& entry : round.plan.entries()) {
      const double norm = round.squared_norms[static_cast<std::size_t>(entry.position)];
      all += entry.coefficient;
      if (std::isnan(norm)) continue;
      there += entry.coefficient;
      sum += entry.coefficient * norm;
    }
    squares_ = sum * all / there;
  }

 private:
  double& squares_;
};

TEST(Extrapolation, LengthensTheStepOfTheMean) {
  TinyJob job{.sampler = "full"};
  const std::vector<float> start = train_threads(1, job, 0);
  double squares = 0;
  job.round_part = [&](Communicator&) { return std::make_unique<Heard>(squares); };
  const std::vector<float> plain = train_threads(1, job, 1);
  double mean = 0;
  for (std::size_t i = 0; i < start.size(); ++i) mean += std::pow(plain[i] - start[i], 2);
  for (const double epsilon : {0.0, mean, 100 * squares}) {
    const double factor = std::max(1.0, squares / (2 * (mean + epsilon)));
    if (epsilon == 0) EXPECT_GT(factor, 1.2);
    job.round_part = [&](Communicator&) { return make_extrapolation(kParams, epsilon); };
    const std::vector<float> longer = train_threads(1, job, 1);
    for (std::size_t i = 0; i < start.size(); ++i) {
      EXPECT_NEAR(longer[i], start[i] + factor * (plain[i] - start[i]), 1e-5) << epsilon;
    }
  }
}

// What is no parameter takes the mean's step, and has no share in its length.
TEST(Extrapolation, LeavesBuffersAlone) {
  TinyJob job{.sampler = "full"};
  const std::vector<float> start = train_threads(1, job, 0);
  double squares = 0;
  job.round_part = [&](Communicator&) { return std::make_unique<Heard>(squares); };
  const std::vector<float> plain = train_threads(1, job, 1);
  constexpr int64_t kTrained = kParams - 4;
  double mean = 0;
  for (std::size_t i = 0; i < kTrained; ++i) mean += std::pow(plain[i] - start[i], 2);
  const double factor = squares / (2 * mean);
  EXPECT_GT(factor, 1.2);
  job.round_part = [&](Communicator&) { return make_extrapolation(kTrained, 0); };
  const std::vector<float> longer = train_threads(1, job, 1);
  for (std::size_t i = 0; i < start.size(); ++i) {
    const double by = i < kTrained ? factor : 1;
    EXPECT_NEAR(longer[i], start[i] + by * (plain[i] - start[i]), 1e-5) << i;
  }
}

struct Ticks final : Clock {
  double now_s() const override { return 0.25 * quarters; }
  int quarters = 0;
};

// Four clients of eleven start within the second that a round has.
TEST(Extrapolation, IsOfThoseWhoTrained) {
  Ticks ticks;
  TinyJob job{.sampler = "full", .clock = &ticks, .round_seconds = 1};
  double squares = 0;
  const auto comm = make_single_communicator();
  const auto trained = [&](const auto& part, int rounds) {
    job.round_part = part;
    TinyTraining training(*comm, job);
    training.update->spoil = [&](const ClientTask&, ClientOutcome&) { ++ticks.quarters; };
    for (int round = 0; round < rounds; ++round) training.trainer->round(false);
    const auto row = training.trainer->model_row();
    return std::vector<float>(row.begin(), row.end());
  };
  const auto hears = [&](Communicator&) { return std::make_unique<Heard>(squares); };
  const std::vector<float> start = trained(hears, 0), plain = trained(hears, 1);
  EXPECT_EQ(ticks.quarters, 4);
  const auto farther = [](Communicator&) { return make_extrapolation(kParams, 0); };
  const std::vector<float> longer = trained(farther, 1);
  double mean = 0;
  for (std::size_t i = 0; i < start.size(); ++i) mean += std::pow(plain[i] - start[i], 2);
  const double factor = squares / (2 * mean);
  EXPECT_GT(factor, 1.05);
  for (std::size_t i = 0; i < start.size(); ++i) {
    EXPECT_NEAR(longer[i], start[i] + factor * (plain[i] - start[i]), 1e-5);
  }
}

TEST(Extrapolation, HasTheSameBitsOnAnyNumberOfRanks) {
  TinyJob job;
  job.round_part = [&](Communicator&) { return make_extrapolation(kParams, 1e-3); };
  const std::vector<float> alone = train_threads(1, job, 6);
  for (int ranks = 2; ranks <= 4; ++ranks) EXPECT_EQ(train_threads(ranks, job, 6), alone);
}

}  // namespace
}  // namespace hanse
