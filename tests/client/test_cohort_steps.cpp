// Every step that a client's optimizer makes, side by side and one after the other.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "client/cohort_cases.hpp"
#include "support/graph_file.hpp"

namespace hanse {
namespace {

using States = std::map<int64_t, Row>;

// Some clients take part in one round alone, so their ages differ in the others.
const std::vector<std::vector<int64_t>> kRoundsOf{{3, 0, 6, 5, 1}, {3, 2, 0, 4}, {6, 3, 2, 1, 0}};

struct Rounds {
  std::vector<Trained> trained;
  States states;
};

std::vector<ClientTask> tasks_with_states(const std::vector<int64_t>& clients, int64_t round,
                                          std::size_t width, States& states) {
  auto tasks = tasks_of(clients, round);
  for (ClientTask& task : tasks) {
    Row& state = states[task.client];
    state.resize(width);
    task.state = state;
  }
  return tasks;
}

Rounds one_by_one(const Case& c, const Federation& federation) {
  const auto [model, part] = model_of(c, federation);
  const auto update = sgd_or_prox(c.client, federation, *model);
  Rounds rounds;
  for (const auto& clients : kRoundsOf) {
    const auto round = std::ssize(rounds.trained) + 1;
    Trained& trained = rounds.trained.emplace_back();
    for (ClientTask& task :
         tasks_with_states(clients, round, to_index(update->state_width()), rounds.states)) {
      task.row = trained.rows.emplace_back(initial_row(*model, c));
      trained.outcomes.push_back(update->train(task));
    }
  }
  return rounds;
}

Rounds side_by_side(const Case& c, const Federation& federation, const std::string& device,
                    int64_t places, KernelStarts starts, int64_t sample_bytes = kAllSamples) {
  const auto [model, part] = model_of(c, federation);
  CohortTraining training(c.client, federation, c.model, device, places, sample_bytes, starts,
                          part);
  Row theta = initial_row(*model, c);
  training.cohort().put_theta(theta);
  const auto update = sgd_or_prox(c.client, federation, *model);
  const auto cohort = update->cohort_update(training, model->layout());
  Rounds rounds;
  for (const auto& clients : kRoundsOf) {
    const auto round = std::ssize(rounds.trained) + 1;
    auto outcomes = cohort->train(
        tasks_with_states(clients, round, to_index(update->state_width()), rounds.states), theta);
    cohort->finish(losses_of(training), theta, outcomes);
    rounds.trained.push_back(rows_of(training, clients, std::move(outcomes)));
  }
  return rounds;
}

void expect_near(const Rounds& got, const Rounds& expected, const std::string& what) {
  for (std::size_t round = 0; round < kRoundsOf.size(); ++round) {
    const Trained &one = got.trained[round], &other = expected.trained[round];
    for (std::size_t i = 0; i < one.rows.size(); ++i) {
      const std::string who = what + ", client " + std::to_string(kRoundsOf[round][i]);
      EXPECT_EQ(one.outcomes[i].samples, other.outcomes[i].samples) << who;
      EXPECT_NEAR(one.outcomes[i].loss, other.outcomes[i].loss, 1e-5) << who;
      EXPECT_LE(furthest(one.rows[i], other.rows[i]), 1e-5F) << who;
    }
  }
  for (const auto& [client, state] : expected.states) {
    const Row& own = got.states.at(client);
    ASSERT_EQ(own.size(), state.size()) << what;
    for (std::size_t i = 0; i < state.size(); ++i) {
      ASSERT_NEAR(own[i], state[i], 1e-5 * (1 + std::abs(state[i]))) << what;
    }
    const bool same_age = state.empty() || own.back() == state.back();
    EXPECT_TRUE(same_age) << what;
  }
}

// By recorded kernels and by others: the same bits.
void expect_rounds(const Case& c, const std::string& what) {
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, c);
  const Rounds expected = one_by_one(c, federation);
  for (const std::string& device : test_devices()) {
    const Rounds recorded = side_by_side(c, federation, device, 6, {});
    const Rounds started =
        side_by_side(c, federation, device, 6, {.recorded = false}, /*sample_bytes=*/0);
    expect_near(recorded, expected, what + " on " + device);
    EXPECT_EQ(recorded.states, started.states) << what;
    for (std::size_t round = 0; round < kRoundsOf.size(); ++round) {
      EXPECT_EQ(recorded.trained[round].rows, started.trained[round].rows) << what;
    }
  }
}

struct Optimizer {
  std::string name;
  OptimizerOptions options;
  double lr = 0.05, momentum = 0;
};

// With a smaller eps the rounding of small gradients would become whole steps.
std::vector<Optimizer> optimizers() {
  OptimizerOptions nesterov{.nesterov = true}, rmsprop{.kind = "rmsprop", .beta2 = 0.9};
  rmsprop.eps = 1e-2;
  return {{"sgd", {}},
          {"momentum", {}, 0.05, 0.9},
          {"nesterov", nesterov, 0.05, 0.8},
          {"adam", {.kind = "adam", .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3}, 0.02},
          {"adamw", {.kind = "adamw", .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3}, 0.02},
          {"adagrad", {.kind = "adagrad", .eps = 1e-2}},
          {"rmsprop", rmsprop, 0.01},
          {"rmsprop with momentum", rmsprop, 0.01, 0.5}};
}

Case stepping(const Optimizer& optimizer, Moments state) {
  Case c{.model = kind("mlp")};
  c.client.optimizer = optimizer.options;
  c.client.optimizer.state = state;
  c.client.lr = optimizer.lr;
  c.client.momentum = optimizer.momentum;
  c.client.weight_decay = 0.3;
  c.client.epochs = 3;
  return c;
}

void accumulate(ClientOptions& client) { client.accumulate = 3; }
void clip(ClientOptions& client) { client.clip = 0.4; }
void draw_to_received(ClientOptions& client) { client.kind = "prox", client.mu = 2; }
// Some losses are beyond the base.
void be_fair(ClientOptions& client) { client.propfair = {.base = 1.3}; }
void do_all(ClientOptions& client) {
  accumulate(client), clip(client), draw_to_received(client), be_fair(client);
  client.schedule = {.kind = "cosine", .over = ScheduleOver::kSteps, .warmup = 2};
}

using Change = void (*)(ClientOptions& client);
const std::vector<std::pair<std::string, Change>> kChanges{
    {"plain", [](ClientOptions&) {}}, {"accumulated", accumulate}, {"clipped", clip},
    {"prox", draw_to_received},       {"propfair", be_fair},       {"all of them", do_all}};

class CohortSteps : public testing::TestWithParam<Moments> {};

TEST_P(CohortSteps, EqualTheHostsForEveryOptimizer) {
  for (const Optimizer& optimizer : optimizers()) {
    for (const auto& [name, change] : kChanges) {
      Case c = stepping(optimizer, GetParam());
      change(c.client);
      expect_rounds(c, optimizer.name + ", " + name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Moments, CohortSteps, testing::Values(Moments::kFresh, Moments::kKept));

// Networks by autograd, and such as train client after client: running means move with every
// mini-batch, parameters with every third.
TEST(CohortOptimizers, StepOtherNetworks) {
  for (const Optimizer& optimizer : optimizers()) {
    if (optimizer.options.kind == "sgd" && optimizer.momentum == 0) continue;
    Case norm = stepping(optimizer, Moments::kKept);
    norm.model = kind("graph");
    norm.model.path = written(picture_norm_graph());
    norm.shape = {1, 12, 12};
    norm.client.optimizer.eps = 0.1;  // of one sample it leaves rounding in place of a gradient
    accumulate(norm.client);
    expect_rounds(norm, optimizer.name + ", batch norm");
  }
  Case head = stepping(optimizers()[3], Moments::kKept);
  head.part = {.train = {"fc2.*"}, .rank = 2, .layers = {"fc1.weight"}};
  accumulate(head.client);
  expect_rounds(head, "a part");
}

// Clients come to a phase after different numbers of steps.
TEST(CohortOptimizers, MoveSomeTensors) {
  for (const Optimizer& optimizer : optimizers()) {
    for (const auto& [name, change] : kChanges) {
      Case turns = stepping(optimizer, Moments::kFresh);
      change(turns.client);
      turns.client.alternate = "fc1.*, fc2.weight";
      expect_rounds(turns, optimizer.name + " by rounds, " + name);
      Case phases = turns;
      phases.client.alternate.clear();
      phases.client.accumulate = 1;
      phases.client.phases = LocalPhases::parse("fc2.* 2, *weight 1, fc1.bias 1, all 1");
      expect_rounds(phases, optimizer.name + " in phases, " + name);
    }
  }
  Case part = stepping(optimizers()[3], Moments::kKept);
  part.client.moves = "fc1.*";
  expect_rounds(part, "moments that are kept");
}

}  // namespace
}  // namespace hanse
