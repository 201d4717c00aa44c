// Updates of clients that start from several models.
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

struct Case {
  AggregatorNeeds rule = {};
  int64_t n_params = 40;
};
const Case kCases[] = {{},
                       {.n_params = kCachedValues + 9},  // whose rows are added two at a time
                       {.rule = {.gram = true}},
                       {.rule = {.sign_share = 0.5}}};

// The sums of a rank.
class Sums {
 public:
  Sums(Communicator& comm, const Case& c)
      : comm_(comm),
        rule_(c.rule),
        host_(comm.split(kByHost)),
        federation_(tiny_federation(*host_)),
        model_(c.n_params) {
    settings_.max_participants = kClients;
    runner_ = make_host_runner({comm, federation_, model_, move_, c.rule}, settings_);
    for (const float at : {1.0F, -2.0F}) {
      Row& row = rows_.emplace_back(to_index(c.n_params));
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = at / static_cast<float>(1 + i % 5);
    }
  }

  const Row& row(std::size_t number) const { return rows_[number]; }

  // Trains clients, each with the model and the streams of its own number, 0 or 1.
  void run(const Clients& clients, const std::vector<std::size_t>& numbers) {
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
    const RoundContext round{.number = 1,
                             .start_s = 0,
                             .plan = plan,
                             .model = rows_[numbers[0]],
                             .control = {},
                             .failure = failure,
                             .starts = starts};
    Findings findings(clients.size());
    runner_->run(round, findings);
    ASSERT_FALSE(failure);
    for (std::size_t i = 0; i < clients.size(); ++i) trained_ += findings.trained(i);
  }

  // What rules do that weigh updates after the training.
  void combine(const Clients& clients) {
    const auto k = std::ssize(clients);
    if (rule_.gram) runner_->sink().kept()->gram(k, {}, nullptr);
    std::vector<double> weights;
    for (const int64_t client : clients) weights.push_back(weight(client));
    if (rule_.after_training()) {
      EXPECT_EQ(runner_->sink().kept()->combine(weights, k), -1);
    }
  }

  // The sum of all ranks, on rank 0.
  Row hand_over() {
    Row sum(rows_[0].size()), model(rows_[0].size());
    SumStep step;
    if (comm_.rank() == 0) {
      step.part = [&](int64_t begin, std::span<float> part) {
        std::copy(part.begin(), part.end(), sum.begin() + begin);
      };
    }
    runner_->sink().hand_over(model, step);
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
  FederatedSettings settings_;
  RunnerPtr runner_;
  std::vector<Row> rows_;
  int64_t trained_ = 0;
};

void expect_sums(Communicator& comm, const std::vector<Row>& found,
                 const std::vector<Row>& expected) {
  if (comm.rank() == 0) {
    EXPECT_EQ(found, expected) << comm.size() << " ranks";
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
        sums.run(clients, {version});
        sums.combine(clients);
      }
      expected = sums.hand_over();
    });
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        Sums sums(comm, c);
        sums.run(all, versions);
        EXPECT_EQ(sums.trained(), std::ssize(all));
        sums.combine(all);
        expect_sums(comm, {sums.hand_over()}, {expected});
      });
    }
  }
}

}  // namespace
}  // namespace hanse
