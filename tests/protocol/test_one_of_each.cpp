// A model, a client's update, a sampler, a rule and a part of the round of one's own, in one round:
// what each of them must bring to work with all the rest. src/adding.md lists the files that each
// would touch.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/client/passes.hpp"
#include "hanse/protocol/round_part.hpp"
#include "protocol/tiny_training.hpp"
#include "protocol/trainer_fixture.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr double kLr = 0.25;

// The samples' mean: F(w) = mean |w - x|^2 / 2.
class MeanModel final : public Model {
 public:
  MeanModel() { layout_.add("w", {3}, 3); }

  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream&,
                           std::span<float> gradient) override {
    const EvaluationSums sums = evaluate(row, batch, {});
    const std::vector<float> from(row.begin(), row.end());
    std::fill(gradient.begin(), gradient.end(), 0.0F);
    for (int64_t i = 0; i < 3 * batch.rows; ++i) {
      const auto j = static_cast<std::size_t>(i % 3);
      gradient[j] += (from[j] - batch.features[i]) / static_cast<float>(batch.rows);
    }
    return sums.loss / static_cast<double>(batch.rows);
  }
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double) override {
    std::vector<float> gradient(3);
    const double loss = loss_and_gradient(row, batch, noise, gradient);
    for (std::size_t j = 0; j < 3; ++j) row[j] -= static_cast<float>(lr) * gradient[j];
    return loss;
  }
  EvaluationSums evaluate(std::span<const float> row, const Batch& batch, SampleResults) override {
    EvaluationSums sums{.samples = batch.rows};
    for (int64_t i = 0; i < 3 * batch.rows; ++i) {
      const float apart = row[static_cast<std::size_t>(i % 3)] - batch.features[i];
      sums.loss += static_cast<double>(apart * apart) / 2;
    }
    return sums;
  }
};

// Every step of a client is pulled down by its number.
class Sinking final : public PassUpdate {
 public:
  Sinking(const Federation& federation, Model& model)
      : PassUpdate({{.steps = 1, .batch = 0}, {.lr = kLr}}, federation, model, {{.pulls = true}}) {}
  void before(std::size_t, const ClientTask& task, std::span<float> pull) override {
    std::fill(pull.begin(), pull.end(), static_cast<float>(task.client));
  }
};

// The even clients in even rounds, the odd ones in odd rounds.
class Alternating final : public ClientSampler {
 public:
  explicit Alternating(int64_t clients) : ClientSampler(clients, clients), there_(clients) {}
  Draw draw(int64_t round, int64_t n, RandomStream&) override {
    Draw draw;
    for (int64_t client = round % 2; client < clients() && std::ssize(draw.clients) < n;
         client += 2) {
      draw.clients.push_back(client);
      draw.counts.push_back(1);
      draw.probabilities.push_back(1);
      draw.weights.push_back(1);
    }
    return draw;
  }
  Draw impose(int64_t, std::span<const int64_t>) override { return {}; }
  double probability(int64_t) const override { return 0.5; }
  void toggle(std::span<const int64_t>) override {}
  const ClientSet& available() const override { return there_; }

 private:
  ClientSet there_;
};

// Each counts by its number and one, and the less the larger its loss is.
class ByNumber final : public Aggregator {
 public:
  AggregatorNeeds needs() const override { return {.losses = true}; }
  Mix mix(const RoundReport& report) override {
    Mix mix;
    for (std::size_t i = 0; i < report.clients.size(); ++i) {
      mix.coefficients.push_back(static_cast<double>(report.clients[i] + 1) /
                                 (1 + report.losses[i]));
    }
    return mix;
  }
};

// Only the signs of an update's entries count.
class SignSum final : public RoundPart {
 public:
  const char* name() const override { return "signs"; }
  bool takes_updates() const override { return true; }
  FoldResult take(const SummedUpdate& one, UpdateSum& sum) override {
    std::vector<float> signs;
    for (const float moved : one.update) {
      signs.push_back(static_cast<float>((moved > 0) - (moved < 0)));
    }
    return sum.add(signs, one.coefficient);
  }

 private:
  void visit(StateFields&) override {}
};

struct OwnTraining : TrainerFixture<MeanModel, Sinking, ByNumber> {
  explicit OwnTraining(Communicator& all)
      : TrainerFixture(all, [](Communicator& local) { return tiny_federation(local); }) {
    model = std::make_unique<MeanModel>();
    update = std::make_unique<Sinking>(federation, *model);
    aggregator = std::make_unique<ByNumber>();
    sampler = std::make_unique<Alternating>(kClients);
    settings.seed = kSeed;
    round_part = std::make_unique<SignSum>();
    start();
  }

  // theta + sum_i (i + 1) / (1 + F_i(theta)) sign(step of i), from the samples alone.
  std::vector<double> expected(std::span<const float> theta, int64_t round) {
    std::vector<double> next(theta.begin(), theta.end());
    for (int64_t client = round % 2; client < kClients; client += 2) {
      const SampleRange range = federation.train(client);
      std::vector<float> x(static_cast<std::size_t>(3 * range.size()));
      federation.copy(range, x.data());
      double loss = 0, gradient[3] = {};
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double apart = static_cast<double>(theta[i % 3]) - static_cast<double>(x[i]);
        loss += apart * apart / 2 / static_cast<double>(range.size());
        gradient[i % 3] += apart / static_cast<double>(range.size());
      }
      for (std::size_t j = 0; j < 3; ++j) {
        const double step = -kLr * (gradient[j] + static_cast<double>(client));
        next[j] += static_cast<double>(client + 1) / (1 + loss) * (step > 0 ? 1 : -1);
      }
    }
    return next;
  }
};

TEST(OneOfEach, TrainsRoundsByItsFormulasOnAnyRanks) {
  std::vector<float> alone;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      OwnTraining own(comm);
      for (int64_t round = 1; round <= 3; ++round) {
        const std::vector<float> before(own.trainer->model_row().begin(),
                                        own.trainer->model_row().end());
        const RoundRecord record = own.trainer->round(false);
        if (comm.rank() != 0) continue;
        EXPECT_FALSE(record.failed);
        EXPECT_EQ(record.participants, round % 2 == 0 ? 6 : 5);
        const auto expected = own.expected(before, round);
        for (std::size_t j = 0; j < 3; ++j) {
          EXPECT_NEAR(own.trainer->model_row()[j], expected[j], 1e-5 * std::abs(expected[j]));
        }
      }
      if (comm.rank() != 0) return;
      const std::vector<float> row(own.trainer->model_row().begin(),
                                   own.trainer->model_row().end());
      if (ranks == 1) alone = row;
      EXPECT_EQ(row, alone) << ranks << " ranks";
    });
  }
}

}  // namespace
}  // namespace hanse
