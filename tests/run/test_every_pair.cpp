// Every aggregator with every sampler, server optimizer and local update, on a job of six clients.
#include <cmath>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

struct Choice {
  std::string aggregator;
  std::string sampler = "uniform";
  std::string optimizer = "sgd";
  std::string update = "sgd";
  int64_t per_round = 3;

  std::string text() const {
    return aggregator + ", " + sampler + ", " + optimizer + ", " + update;
  }
};

void fill_job(const Choice& choice, Job& job) {
  job.run.seed = 3;
  job.data.kind = "random";
  job.data.shape = {5};
  job.data.classes = 3;
  job.federation.clients = 6;
  job.federation.partition = "power-law";
  job.federation.samples = 12;
  job.model.kind = "linear";
  const bool represents = choice.update == "moon" || choice.update == "fedproto";
  if (represents && choice.sampler != "lipschitz") {  // which knows linear models alone
    job.model.kind = "mlp";
    job.model.hidden = {4};
  }
  job.client.kind = choice.update;
  job.client.batch = 4;
  job.client.mu = 0.5;
  if (choice.update == "fednl") job.client.weight_decay = 0.01;  // a softmax has singular Hessians
  job.sampler.kind = choice.sampler;
  job.sampler.per_round = choice.per_round;
  job.sampler.learning.horizon = 2;
  job.sampler.formula = "lambda + a + 0.1 / age";
  job.aggregator.kind = choice.aggregator;
  job.aggregator.formula = "n * exp(F) / (1 + norm)";
  if (choice.aggregator == "adafed") job.client.rate = LoweringRate::kLoss;
  job.server.optimizer = choice.optimizer;
  job.server.lr = choice.optimizer == "sgd" || choice.optimizer == "momentum" ? 1 : 0.05;
}

struct Outcome {
  std::vector<float> model;
  std::vector<double> decision;
  std::vector<RoundRecord> records;
};

// Two rounds on `comm`; complete on rank 0. Collective.
Outcome train(const Choice& choice, Communicator& comm) {
  Job job;
  fill_job(choice, job);
  check_job(job);
  const auto parts = assemble(job, comm);
  Protocol& protocol = parts->protocol();
  protocol.initialize_model();
  Outcome outcome;
  for (int round = 0; round < 2; ++round) outcome.records.push_back(protocol.round(false));
  const auto row = protocol.model_row();
  outcome.model.assign(row.begin(), row.end());
  outcome.decision = protocol.decision();
  return outcome;
}

Outcome train_threads(const Choice& choice, int ranks) {
  std::optional<Outcome> first;
  run_threads(ranks, [&](Communicator& comm) {
    Outcome mine = train(choice, comm);
    if (comm.rank() == 0) first = std::move(mine);
  });
  return *first;
}

bool finite(const Outcome& outcome) {
  bool result = !outcome.model.empty();
  for (const float value : outcome.model) result = result && std::isfinite(value);
  for (const double share : outcome.decision) result = result && std::isfinite(share);
  for (const RoundRecord& record : outcome.records) {
    result = result && !record.failed && std::isfinite(record.loss);
  }
  return result;
}

// Does `hanse check` refuse it?
bool is_refused(const Choice& choice) {
  Job job;
  fill_job(choice, job);
  try {
    check_job(job);
  } catch (const InvalidArgument&) {
    return true;
  }
  return false;
}
bool takes_gradients(const std::string& aggregator) {
  return aggregator == "dqn-fed" || aggregator == "adafed";
}

std::vector<std::string> known_names(const std::string& key) {
  for (const KindFamily& family : catalog()) {
    if (family.key != key) continue;
    auto names = names_of(family.rows);
    // Rules in files, and robust rules, have tests of their own.
    std::erase_if(names, [](const std::string& name) {
      return name == "python" || name == "plugin" || (name != "fedavg" && find_robust_rule(name));
    });
    return names;
  }
  return {};
}

TEST(EveryPair, TrainsOrIsRefused) {
  const auto single = make_single_communicator();
  int trained = 0, refused = 0;
  for (const auto& aggregator : known_names("aggregator.kind")) {
    for (const auto& sampler : known_names("sampler.kind")) {
      for (const auto& optimizer : known_names("server.optimizer")) {
        for (const auto& update : known_names("client.update")) {
          const Choice choice{aggregator, sampler, optimizer, update};
          if (is_refused(choice)) {
            ++refused;
          } else {
            EXPECT_TRUE(finite(train(choice, *single))) << choice.text();
            ++trained;
          }
        }
      }
    }
  }
  EXPECT_EQ(trained, 9789);
  EXPECT_EQ(refused, 7011);
}

// Draws with replacement leave clients out, however many they are: also refused in time.
TEST(EveryPair, SilosAreNotDrawnWithReplacement) {
  const auto single = make_single_communicator();
  Choice choice{"aaggff-s", "weighted"};
  choice.per_round = 6;
  expect_error<InvalidArgument>([&] { train(choice, *single); }, {"aaggff-s needs every client"});
  choice.sampler = "uniform";
  EXPECT_TRUE(finite(train(choice, *single)));
  choice = {"aaggff-d", "weighted"};
  choice.per_round = 6;
  EXPECT_TRUE(finite(train(choice, *single)));
}

// What enters the server's decisions is the same, whoever trains whom.
TEST(EveryPair, SameBitsOnOneAndThreeRanks) {
  for (const auto& aggregator : known_names("aggregator.kind")) {
    for (const std::string sampler : {"full", "uniform", "weighted", "oort", "power-of-choice"}) {
      const Choice choice{aggregator, sampler, "adam",
                          takes_gradients(aggregator) ? "sgd" : "prox"};
      if (is_refused(choice)) continue;
      const Outcome one = train_threads(choice, 1);
      const Outcome three = train_threads(choice, 3);
      EXPECT_EQ(one.model, three.model) << choice.text();
      EXPECT_EQ(one.decision, three.decision) << choice.text();
      for (std::size_t t = 0; t < 2; ++t) {
        EXPECT_EQ(one.records[t].loss, three.records[t].loss) << choice.text();
      }
    }
  }
}

TEST(EveryPair, RobustRulesTrainWithTheSameBits) {
  const auto single = make_single_communicator();
  for (const RobustRule& rule : robust_rules()) {
    const std::string& aggregator = rule.name;
    for (const std::string update : {"prox", "scaffold"}) {
      const Choice choice{aggregator, "full", "adam", update};
      if (is_refused(choice)) continue;
      if (aggregator == "fltrust") {  // nobody is kept out of training here
        expect_error<AgreedError>([&] { train(choice, *single); }, {"federation.held-out"});
        continue;
      }
      const Outcome one = train_threads(choice, 1);
      EXPECT_TRUE(finite(one)) << choice.text();
      EXPECT_EQ(one.model, train_threads(choice, 3).model) << choice.text();
    }
  }
}

TEST(EveryPair, TooFewParticipantsAreRefusedBeforeTheFirstRound) {
  Choice choice{"krum", "uniform"};
  choice.per_round = 2;
  const auto single = make_single_communicator();
  expect_error<InvalidArgument>([&] { train(choice, *single); }, {"at least 3 rows", "shortfall"});
}

// No choice is without effect: all models differ, except where the rules are the same.
TEST(EveryPair, ChoicesDiffer) {
  const auto single = make_single_communicator();
  std::vector<Outcome> outcomes;
  std::vector<std::string> names;
  const auto add = [&](const Choice& choice) {
    outcomes.push_back(train(choice, *single));
    names.push_back(choice.text());
  };
  for (const auto& aggregator : known_names("aggregator.kind")) add({aggregator, "full"});
  for (const auto& optimizer : known_names("server.optimizer")) {
    if (optimizer != "sgd") add({"fedavg", "full", optimizer});
  }
  add({"fedavg", "uniform"});
  add({"fedavg", "weighted"});
  add({"fedavg", "full", "sgd", "prox"});
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(outcomes[i].model, outcomes[j].model) << names[i] << " and " << names[j];
    }
  }
}

}  // namespace
}  // namespace hanse
