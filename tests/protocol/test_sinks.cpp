// Sums that are open at once, and updates of clients that start from several models.
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "federated/client_runner.hpp"
#include "federated/findings.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/processor.hpp"
#include "protocol/tiny_training.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;
using Clients = std::vector<int64_t>;

class WideModel final : public Model {
 public:
  explicit WideModel(int64_t n_params) { layout_.add("w", {n_params}, 4); }
  double loss_and_gradient(std::span<const float>, const Batch&, RandomStream&,
                           std::span<float>) override {
    return 0;
  }
  double sgd_step(std::span<float>, const Batch&, RandomStream&, double, double) override {
    return 0;
  }
  EvaluationSums evaluate(std::span<const float>, const Batch&, SampleResults) override {
    return {};
  }
};

// Depends on the client, on the round that keys its streams, and on the row it starts from.
class Move final : public LocalUpdate {
 public:
  Move() : LocalUpdate({}) {}
  ClientOutcome train(const ClientTask& task) override {
    const auto own = static_cast<float>(7 * task.client + task.round + 1);
    for (std::size_t i = 0; i < task.row.size(); ++i) {
      task.row[i] += own / static_cast<float>(3 + i % 11) - 0.3F * task.row[i];
    }
    return {.loss = 1, .samples = 1};
  }
};

// Adds the number of the round to the first rank's sum when it begins.
class RoundOnTop final : public SumStage {
 public:
  explicit RoundOnTop(bool adds) : adds_(adds) {}
  void begin(const SummedEntries& sum) override {
    for (int64_t& integer : sum.integers) integer += adds_ ? sum.round << 44 : 0;
  }

 private:
  bool adds_;
};

struct Case {
  AggregatorNeeds rule = {};
  int64_t n_params = 40;
  bool staged = false;
};
const Case kCases[] = {{},
                       {.staged = true},
                       {.n_params = kCachedValues + 9},  // whose rows are added two at a time
                       {.rule = {.gram = true}},
                       {.rule = {.gram = true}, .staged = true},
                       {.rule = {.sign_share = 0.5}}};

// The sums of a rank.
class Sums {
 public:
  Sums(Communicator& comm, const Case& c)
      : comm_(comm),
        rule_(c.rule),
        host_(comm.split(kByHost)),
        federation_(tiny_federation(*host_)),
        model_(c.n_params),
        stage_(comm.rank() == 0) {
    settings_.max_participants = kClients;
    RunnerParts parts{comm, federation_, model_, move_, c.rule};
    if (c.staged) parts.stages.sum = &stage_;
    runner_ = make_host_runner(parts, settings_);
    runner_->open_sinks(2);
    for (const float at : {1.0F, -2.0F}) {
      Row& row = rows_.emplace_back(to_index(c.n_params));
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = at / static_cast<float>(1 + i % 5);
    }
  }

  const Row& row(std::size_t number) const { return rows_[number]; }

  // Trains clients, each with the model and the streams of its own number, 0 or 1, which is that of
  // the sum where all are alike.
  void run(const Clients& clients, int64_t sink, const std::vector<std::size_t>& numbers) {
    RoundPlan plan(comm_, *host_, federation_, *runner_, settings_);
    const Draw draw{.clients = clients};
    if (comm_.rank() == 0) {
      const std::vector<double> importances(clients.size());
      plan.assign({.draw = draw}, importances, 1);
      std::vector<double> weights;
      for (const int64_t client : clients) weights.push_back(weight(client));
      plan.weigh(weights);
    }
    plan.share(PlanMessage::kParticipants);
    std::vector<TaskStart> starts;
    for (const Assignment& entry : plan.entries()) {
      const std::size_t number = numbers[to_index(entry.position) % numbers.size()];
      starts.push_back({static_cast<int64_t>(number) + 1, rows_[number]});
    }
    std::exception_ptr failure;
    const RoundContext round{.number = sink + 1,
                             .start_s = 0,
                             .plan = plan,
                             .model = rows_[numbers[0]],
                             .control = {},
                             .failure = failure,
                             .starts = starts,
                             .sink = sink};
    Findings findings(clients.size());
    runner_->run(round, findings);
    ASSERT_FALSE(failure);
    for (std::size_t i = 0; i < clients.size(); ++i) trained_ += findings.trained(i);
  }

  // What rules do that weigh updates after the training.
  void combine(const Clients& clients, int64_t sink) {
    const auto k = std::ssize(clients);
    if (rule_.gram) runner_->sink(sink).gram(k, {}, nullptr);
    std::vector<double> weights;
    for (const int64_t client : clients) weights.push_back(weight(client));
    if (rule_.after_training()) {
      EXPECT_EQ(runner_->sink(sink).combine(weights, k), -1);
    }
  }

  // The sum of all ranks, on rank 0.
  Row hand_over(int64_t sink) {
    Row sum(rows_[0].size()), model(rows_[0].size());
    SumStep step;
    if (comm_.rank() == 0) {
      step.part = [&](int64_t begin, std::span<float> part) {
        std::copy(part.begin(), part.end(), sum.begin() + begin);
      };
    }
    runner_->sink(sink).hand_over(model, step);
    return sum;
  }

  int64_t trained() { return comm_.allreduce_one(trained_, ReduceOp::kSum); }

 private:
  static double weight(int64_t client) { return 1 / (2.0 + static_cast<double>(client)); }

  Communicator& comm_;
  AggregatorNeeds rule_;
  std::unique_ptr<Communicator> host_;
  Federation federation_;
  WideModel model_;
  Move move_;
  RoundOnTop stage_;
  FederatedSettings settings_;
  RunnerPtr runner_;
  std::vector<Row> rows_;
  int64_t trained_ = 0;
};

const Clients kFirst{0, 3, 5, 7, 10}, kSecond{2, 9, 4};

void expect_sums(Communicator& comm, const std::vector<Row>& found,
                 const std::vector<Row>& expected) {
  if (comm.rank() == 0) {
    EXPECT_EQ(found, expected) << comm.size() << " ranks";
  }
}

// One after the other, on one rank.
std::vector<Row> sums_of(const Case& c) {
  std::vector<Row> sums;
  run_threads(1, [&](Communicator& comm) {
    for (const std::size_t number : {0U, 1U}) {
      Sums alone(comm, c);
      const Clients& clients = number == 0 ? kFirst : kSecond;
      const auto sink = static_cast<int64_t>(number);
      alone.run(clients, sink, {number});
      alone.combine(clients, sink);
      sums.push_back(alone.hand_over(sink));
    }
  });
  return sums;
}

TEST(Sinks, TwoSumsAtOnceHaveTheBitsOfOneAfterTheOther) {
  for (const Case& c : kCases) {
    const auto expected = sums_of(c);
    ASSERT_NE(expected[0], expected[1]);
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        Sums sums(comm, c);
        const bool in_parts = !c.rule.after_training();
        if (in_parts) {
          sums.run({0, 3}, 0, {0});
        } else {
          sums.run(kFirst, 0, {0});
        }
        sums.run(kSecond, 1, {1});
        if (in_parts) sums.run({5, 7, 10}, 0, {0});
        sums.combine(kSecond, 1);
        const Row second = sums.hand_over(1);
        sums.combine(kFirst, 0);
        expect_sums(comm, {sums.hand_over(0), second}, expected);
        EXPECT_EQ(sums.trained(), 8);
        // Both are empty again.
        sums.run(kFirst, 0, {0});
        sums.combine(kFirst, 0);
        expect_sums(comm, {sums.hand_over(0)}, {expected[0]});
      });
    }
  }
}

TEST(Sinks, ClientsOfTwoVersionsInOneRunHaveTheBitsOfTwoRuns) {
  const Clients all{0, 2, 3, 9, 5, 4, 7};
  const std::vector<std::size_t> versions{0, 1, 0, 1, 0, 1, 0};
  for (const Case& c : kCases) {
    Row expected;
    run_threads(1, [&](Communicator& comm) {
      Sums sums(comm, c);
      for (const std::size_t version : {0U, 1U}) {
        const Clients clients = version == 0 ? Clients{0, 3, 5, 7} : Clients{2, 9, 4};
        sums.run(clients, 0, {version});
        sums.combine(clients, 0);
      }
      expected = sums.hand_over(0);
    });
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        Sums sums(comm, c);
        sums.run(all, 0, versions);
        sums.combine(all, 0);
        expect_sums(comm, {sums.hand_over(0)}, {expected});
      });
    }
  }
}

}  // namespace
}  // namespace hanse
