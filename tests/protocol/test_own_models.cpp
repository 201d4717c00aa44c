// Every client evaluated with a model of its own.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "evaluation/evaluations.hpp"
#include "protocol/resume.hpp"
#include "protocol/tiny_training.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

TinyJob own_models_job(bool stateful, ServerRole role, int64_t held_out = 0) {
  TinyJob job;
  job.held_out = held_out;
  job.stateful = stateful;
  job.own_models = true;
  job.server.role = role;
  return job;
}

// One after another, from what a checkpoint keeps: the model trained as in the next round. Of
// clients held out of training nothing is kept.
std::vector<ClientEvaluation> slow_evaluation(const TinyJob& job, int64_t rounds) {
  const Kept kept = train_and_keep<TinyTraining>(1, job, rounds);
  const auto theta = kept.server.get<float>("model");
  const auto comm = make_single_communicator();
  const Federation federation = tiny_federation(*comm, 0.25, job.held_out);
  TinyModel model;
  TinyUpdate update(job.stateful);
  std::vector<ClientEvaluation> found;
  RowEvaluator evaluator(federation, model);
  for (int64_t client = 0; client < kClients; ++client) {
    std::vector<float> row = theta;
    std::vector<float> state(static_cast<std::size_t>(update.state_width()));
    const auto known = kept.clients.find(client);
    if (known != kept.clients.end()) state = known->second;
    update.train(
        {.client = client, .round = rounds + 1, .seed = kSeed, .row = row, .state = state});
    found.push_back(evaluate_one(federation, evaluator.at(row), client));
    if (client < federation.clients()) continue;
    EXPECT_TRUE(known == kept.clients.end()) << "client " << client << " took part";
    found.back().before = evaluate_one(federation, evaluator.at(theta), client).test_scores();
  }
  return found;
}

void expect_same(const EvaluationTable& table, const std::vector<ClientEvaluation>& expected) {
  std::vector<ClientEvaluation> found;
  for (const ClientEvaluation& client : table) found.push_back(client);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t c = 0; c < found.size(); ++c) {
    EXPECT_EQ(found[c].loss, expected[c].loss) << "client " << c;
    EXPECT_EQ(found[c].accuracy, expected[c].accuracy) << "client " << c;
    EXPECT_EQ(found[c].train_loss, expected[c].train_loss) << "client " << c;
    ASSERT_EQ(found[c].before.has_value(), expected[c].before.has_value()) << "client " << c;
    if (!found[c].before) continue;
    EXPECT_EQ(found[c].before->loss, expected[c].before->loss) << "client " << c;
    EXPECT_EQ(found[c].before->accuracy, expected[c].before->accuracy) << "client " << c;
    EXPECT_NE(found[c].before->loss, found[c].loss) << "client " << c;
  }
}

void expect_those_of_the_next_round(bool stateful, int64_t held_out) {
  constexpr int64_t kRounds = 3;  // of four participants: some clients have no state yet
  const auto expected =
      slow_evaluation(own_models_job(stateful, ServerRole::kShared, held_out), kRounds);
  EXPECT_NE(expected[0].loss, expected[1].loss);
  for (const ServerRole role : {ServerRole::kShared, ServerRole::kDedicated}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        TinyTraining training(comm, own_models_job(stateful, role, held_out));
        for (int64_t t = 0; t < kRounds; ++t) training.trainer->round(false);
        const auto found = training.trainer->evaluate();
        if (comm.rank() == 0) {
          expect_same(found, expected);
        } else {
          EXPECT_TRUE(found.empty());
        }
      });
    }
  }
}

TEST(OwnModels, AreThoseOfTheNextRoundOnAnyRanks) {
  for (const bool stateful : {false, true}) expect_those_of_the_next_round(stateful, 0);
}

TEST(OwnModels, OfHeldOutClientsAreThoseOfAFirstRound) {
  for (const bool stateful : {false, true}) expect_those_of_the_next_round(stateful, 3);
}

// The model and all states of a run that evaluates in every round are those of one that never does.
TEST(OwnModels, LeaveNoTrace) {
  const TinyJob job = own_models_job(true, ServerRole::kShared);
  constexpr int64_t kRounds = 5;
  const Kept expected = train_and_keep<TinyTraining>(1, job, kRounds);
  const auto comm = make_single_communicator();
  TinyTraining training(*comm, job);
  for (int64_t t = 0; t < kRounds; ++t) {
    training.trainer->evaluate();
    training.trainer->round(false);
  }
  training.trainer->evaluate();
  const auto row = training.trainer->model_row();
  EXPECT_EQ(std::vector<float>(row.begin(), row.end()), expected.server.get<float>("model"));
  const auto& states = *training.trainer->client_states();
  std::map<int64_t, std::vector<float>> kept;
  for (const int64_t client : states.clients()) {
    const auto state = states.existing_row(client);
    kept.emplace(client, std::vector<float>(state.begin(), state.end()));
  }
  EXPECT_EQ(kept, expected.clients);
  EXPECT_LT(kept.size(), static_cast<std::size_t>(kClients));  // nobody was made a participant
}

}  // namespace
}  // namespace hanse
