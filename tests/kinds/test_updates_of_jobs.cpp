// Updates as a job's options make them.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/kinds/updates.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

// A key that the update does not read changes nothing.
TEST(UpdatesOfJobs, StragglersAreOfThoseThatReadTheKey) {
  const auto families = kind_families();
  KeyedJob job(families);
  std::vector<std::string> readers;
  for (const KindUse& use : job.table.at("client.stragglers").uses) readers.push_back(use.kind);
  ASSERT_EQ(readers, (std::vector<std::string>{"sgd", "prox", "fedntd", "moon", "fedproto"}));
  job.client.stragglers = 0.5;
  for (const std::string& kind : job.table.at("client.update").choices) {
    job.client.kind = kind;
    EXPECT_EQ(instructed_clients(job).stragglers, std::ranges::count(readers, kind) > 0 ? 0.5 : 0)
        << kind;
  }
}

TEST(UpdatesOfJobs, ScaffoldTakesMomentumThatClientsDoNotKeep) {
  const auto families = kind_families();
  KeyedJob job(families);
  job.client.kind = "scaffold";
  job.client.momentum = 0.5;
  require_no_conflict(facts_of(job));
  job.client.optimizer.state = Moments::kKept;
  expect_error<InvalidArgument>([&] { require_no_conflict(facts_of(job)); },
                                {"scaffold", "(client.optimizer-state)", "hint: "});
}

TEST(UpdatesOfJobs, DittoTakesMomentumThatClientsDoNotKeep) {
  const auto families = kind_families();
  KeyedJob job(families);
  job.client.kind = "ditto";
  job.client.optimizer.state = Moments::kKept;
  require_no_conflict(facts_of(job));  // there are no moments
  job.client.momentum = 0.5;
  expect_error<InvalidArgument>([&] { require_no_conflict(facts_of(job)); },
                                {"ditto", "(client.optimizer-state)", "hint: "});
}

// The steps of an evaluation: those of training, and of per-fedavg the inner ones; any tensors.
TEST(UpdatesOfJobs, EvaluationsTuneByTheStepsOfTheUpdate) {
  const auto families = kind_families();
  KeyedJob job(families);
  job.client.lr = 0.3;
  job.client.inner_lr = 0.02;
  job.client.steps = 9;
  job.client.batch = 7;
  job.client.momentum = 0.5;
  job.client.optimizer.state = Moments::kKept;
  job.client.train = job.client.personal = "fc1.*";
  job.evaluate.tune_steps = 4;
  job.evaluate.tune = "fc2.*";
  const std::vector<std::pair<std::string, double>> rates = {
      {"sgd", 0.3}, {"apfl", 0.3}, {"per-fedavg", 0.02}};
  for (const auto& [kind, lr] : rates) {
    job.client.kind = kind;
    const ClientOptions tuner = tuner_options(job);
    EXPECT_EQ(tuner.kind, "sgd");
    EXPECT_EQ(tuner.lr, lr) << kind;
    EXPECT_EQ(tuner.momentum, 0.5);
    EXPECT_EQ(tuner.optimizer.state, Moments::kFresh);
    EXPECT_EQ(tuner.steps, 4);
    EXPECT_EQ(tuner.batch, 7);
    EXPECT_EQ(tuner.moves, "fc2.*");
    EXPECT_EQ(tuner.personal, "");
  }
}

TEST(UpdatesOfJobs, WhatIsNoPlainGradientIsRefused) {
  const std::vector<std::pair<std::string, void (*)(ClientOptions&)>> changes = {
      {"client.momentum", [](ClientOptions& o) { o.momentum = 0.5; }},
      {"client.clip", [](ClientOptions& o) { o.clip = 1; }},
      {"client.accumulate", [](ClientOptions& o) { o.accumulate = 2; }},
      {"client.optimizer", [](ClientOptions& o) { o.optimizer.kind = "adam"; }},
      {"client.schedule-over", [](ClientOptions& o) { o.schedule.over = ScheduleOver::kSteps; }}};
  const auto families = kind_families();
  for (const auto& [key, change] : changes) {
    KeyedJob job(families);
    change(job.client);
    job.aggregator.kind = "dqn-fed";
    expect_error<InvalidArgument>([&] { require_no_conflict(facts_of(job)); },
                                  {"dqn-fed", "(" + key + ")"});
    if (key == "client.momentum") continue;  // below
    job.client.kind = "scaffold";
    job.aggregator.kind = "fedavg";
    expect_error<InvalidArgument>([&] { require_no_conflict(facts_of(job)); },
                                  {"scaffold", "(" + key + ")", "hint: "});
  }
  KeyedJob job(families);
  job.aggregator.kind = "adafed";
  require_no_conflict(facts_of(job));
  job.client.kind = "prox";
  expect_error<InvalidArgument>([&] { require_no_conflict(facts_of(job)); },
                                {"client.update = prox"});
}

}  // namespace
}  // namespace hanse
