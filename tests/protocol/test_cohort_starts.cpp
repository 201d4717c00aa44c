// Cohorts that start from another model than the received one.
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "federated/client_runner.hpp"
#include "federated/findings.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/index.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/torch_library.hpp"
#include "protocol/tiny_training.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

// Two clients train at once, on one rank.
struct Cohorts {
  Cohorts() {
    ModelOptions options;
    options.kind = "linear";
    ClientOptions client{{.epochs = 2, .batch = 4}, {.lr = 0.1}};
    model = make_model(options, federation.sample_shape(), 2);
    update = make_sgd(client, federation, *model);
    settings.max_participants = kClients;
    runner = make_cohort_runner(
        {*comm, federation, *model, *update, {}}, settings,
        std::make_unique<CohortTraining>(client, federation, options, "cpu", 2, 1 << 20),
        torch_library().make_staged_communicator(*comm));
  }

  // The sum of the clients' updates. Each starts from a row of `starts`, or, where that is empty,
  // all from `row`.
  Row sum(const std::vector<int64_t>& clients, std::span<const float> row,
          const std::vector<TaskStart>& starts = {}) {
    RoundPlan plan(*comm, *comm, federation, *runner, settings);
    const std::vector<double> ones(clients.size(), 1);
    plan.assign({.draw = {.clients = clients}}, ones, 1);
    plan.weigh(ones);
    Findings findings(clients.size());
    failure = nullptr;
    runner->run({.number = 1,
                 .start_s = 0,
                 .plan = plan,
                 .model = row,
                 .control = {},
                 .failure = failure,
                 .starts = starts},
                findings);
    Row model_row(row.begin(), row.end()), found(row.size());
    SumStep step;
    step.part = [&](int64_t begin, std::span<float> part) {
      std::copy(part.begin(), part.end(), found.begin() + begin);
    };
    runner->sink().hand_over(model_row, step);
    return found;
  }

  Row filled(float value) const {
    Row row(to_index(model->n_params()));
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = value / static_cast<float>(1 + i);
    return row;
  }

  std::unique_ptr<Communicator> comm = make_single_communicator();
  Federation federation = tiny_federation(*comm);
  std::unique_ptr<Model> model;
  std::unique_ptr<LocalUpdate> update;
  FederatedSettings settings;
  RunnerPtr runner;
  std::exception_ptr failure;
};

TEST(CohortStarts, AnyModelIsAsGoodAsTheReceivedOne) {
  Cohorts cohorts;
  Row first = cohorts.filled(1), second = cohorts.filled(-2);
  cohorts.runner->receive(second);
  const Row expected = cohorts.sum({4, 2, 9, 0}, second);
  const double worth = cohorts.runner->evaluator(first).range(cohorts.federation.train(0)).loss;
  cohorts.runner->receive(first);
  ASSERT_NE(cohorts.sum({4, 2, 9, 0}, first), expected);
  EXPECT_EQ(cohorts.sum({4, 2, 9, 0}, second), expected);
  const TaskStart start{1, second};
  EXPECT_EQ(cohorts.sum({4, 2, 9, 0}, first, {start, start, start, start}), expected);
  EXPECT_EQ(cohorts.runner->evaluator(first).range(cohorts.federation.train(0)).loss, worth);
}

TEST(CohortStarts, EveryCohortAndEveryClientMayHaveItsOwn) {
  Cohorts cohorts;
  Row first = cohorts.filled(1), second = cohorts.filled(-2);
  cohorts.runner->receive(first);
  const Row of_first = cohorts.sum({4, 2}, first), of_second = cohorts.sum({9, 0}, second);
  const TaskStart one{1, first}, two{1, second};
  const Row both = cohorts.sum({4, 2, 9, 0}, first, {one, one, two, two});
  EXPECT_FALSE(cohorts.failure);
  const Row mixed = cohorts.sum({4, 9, 2, 0}, first, {one, two, one, two});
  EXPECT_FALSE(cohorts.failure);
  for (std::size_t i = 0; i < both.size(); ++i) {
    EXPECT_NEAR(both[i], of_first[i] + of_second[i], 1e-6) << i;
    EXPECT_NEAR(mixed[i], both[i], 1e-6) << i;
  }
}

}  // namespace
}  // namespace hanse
