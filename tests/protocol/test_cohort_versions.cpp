// Rounds whose participants are trained side by side and start from several models, or make fewer
// steps than others.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "protocol/cohort_kinds.hpp"

namespace hanse {
namespace {

class CohortVersions : public testing::Test {
 protected:
  static void SetUpTestSuite() { torch_library().set_threads(1); }
};

// The clients' speeds differ by their samples, and some more by chance.
KindsJob on_clock() {
  KindsJob job{plain_steps()};
  job.rounds = 7;
  job.job.run.rounds = 7;
  job.job.clock.kind = "virtual";
  job.job.clock.speed = Distribution::parse("lognormal(0, 0.8)");
  job.job.aggregator.weights = ClientWeights::kUniform;
  return job;
}

KindsJob with_deadline(LateRule late) {
  KindsJob job = on_clock();
  job.job.clock.round = RoundEnd::kDeadline;
  job.job.clock.late = late;
  job.job.clock.deadline.seconds = 0.06;
  return job;
}

KindsJob buffered(const std::string& kind, int64_t concurrency, int64_t buffer) {
  KindsJob job = on_clock();
  job.job.async.kind = kind;
  job.job.async.concurrency = concurrency;
  job.job.async.buffer = buffer;
  return job;
}

KindsJob of_update(KindsJob job, const std::string& kind) {
  job.job.client.kind = kind;
  job.job.client.mu = 0.8;
  job.job.client.lambda = 0.7;
  return job;
}

KindsJob of_rule(KindsJob job, const std::string& rule) {
  job.job.aggregator.kind = rule;
  job.job.aggregator.byzantine.number = 1;
  job.job.aggregator.radius = 1;
  return job;
}

TEST_F(CohortVersions, BuffersOfSeveralVersions) {
  const KindsJob fedbuff = buffered("fedbuff", 8, 5);
  expect_agreement("fedbuff", fedbuff);
  expect_agreement("fedasync", buffered("fedasync", 6, 1));
  expect_agreement("prox", of_update(fedbuff, "prox"));
  expect_agreement("fedmgda+", of_rule(fedbuff, "fedmgda+"));
  expect_agreement("krum", of_rule(fedbuff, "krum"));
  KindsJob adam = fedbuff;
  adam.job.server = {.optimizer = "adam", .lr = 0.01};
  expect_agreement("the server's adam", adam);
  KindsJob decaying = fedbuff;
  decaying.job.client.lr_decay = 0.7;
  expect_agreement("steps that shrink", decaying);
}

// A client may have several tasks in one buffer: each goes on from the state of the one before.
TEST_F(CohortVersions, StatesOfSeveralVersions) {
  KindsJob fast = buffered("fedbuff", 4, 8);
  fast.job.async.next = NextClient::kSame;
  for (const char* kind : {"ditto", "scaffold", "feddyn"}) {
    expect_agreement(std::string(kind) + ", often", of_update(fast, kind));
  }
  KindsJob personal = of_update(buffered("fedbuff", 8, 5), "prox");
  personal.job.client.personal = "fc1.*";
  expect_agreement("personal layers with prox", personal);
  KindsJob momentum = fast;
  momentum.job.client.worker_momentum = 0.5;
  expect_agreement("worker momentum, often", momentum);
}

TEST_F(CohortVersions, DirectionsOfSeveralVersions) {
  KindsJob job = of_rule(buffered("fedbuff", 6, 4), "dqn-fed");
  job.job.client.epochs = 0;
  job.job.client.steps = 3;
  job.job.client.lr = 0.05;
  job.job.client.rate = LoweringRate::kLbfgs;
  job.job.client.lr_decay = 0.8;
  for (const int64_t pairs : {2, 5}) {
    job.job.client.pairs = pairs;
    expect_agreement("dqn-fed of " + std::to_string(pairs) + " pairs", job);
  }
}

TEST_F(CohortVersions, LateClients) {
  const KindsJob partial = with_deadline(LateRule::kPartial);
  expect_agreement("partial", partial);
  expect_agreement("carried", with_deadline(LateRule::kCarry));
  expect_agreement("partial scaffold", of_update(partial, "scaffold"));
  KindsJob nova = of_update(partial, "fednova");
  expect_agreement("fednova", nova);
}

// The jobs are what they are called: clients of a round differ in their versions or steps.
TEST_F(CohortVersions, RoundsDiffer) {
  const auto far = [](const KindsJob& one, const KindsJob& other) {
    const Outcome a = outcome_of(1, one), b = outcome_of(1, other);
    float most = 0;
    for (std::size_t i = 0; i < a.row.size(); ++i) {
      most = std::max(most, std::abs(a.row[i] - b.row[i]));
    }
    return most;
  };
  EXPECT_GT(far(with_deadline(LateRule::kPartial), on_clock()), 1e-3F);
  EXPECT_GT(far(with_deadline(LateRule::kPartial), with_deadline(LateRule::kCarry)), 1e-3F);
  KindsJob fresh = buffered("fedbuff", 8, 5);
  fresh.job.async.a = 5;  // older updates hardly count
  EXPECT_GT(far(buffered("fedbuff", 8, 5), fresh), 1e-3F);
}

}  // namespace
}  // namespace hanse
