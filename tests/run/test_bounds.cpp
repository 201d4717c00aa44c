// The federated jobs that centralized and local runs amount to.
#include <cmath>

#include <gtest/gtest.h>

#include "hanse/job/job.hpp"
#include "hanse/kinds/samplers.hpp"
#include "run/assemble/bounds.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

struct BoundCase {
  BoundCase() : comm(make_single_communicator()) {
    job.data.kind = "random";
    job.data.shape = {3};
    job.data.classes = 2;
    job.federation.clients = 7;
    job.federation.partition = "power-law";
    job.federation.samples = 13;
    job.sampler.per_round = 3;
    federation = Federation::load(job.data, job.federation, 1, *comm);
  }
  Job centralized() const { return bound_job(job, federation, Bound::kCentralized); }
  int64_t steps() const { return centralized().client.steps; }

  std::unique_ptr<Communicator> comm;
  Job job;
  Federation federation;
};

TEST(Bounds, CentralizedProcessesAsManySamplesAsAFederatedRound) {
  BoundCase b;
  b.job.client.epochs = 2;
  b.job.client.batch = 4;
  const auto n = static_cast<double>(b.federation.train_samples());
  EXPECT_EQ(b.steps(), std::llround(3.0 / 7 * 2 * n / 4));
  b.job.sampler.kind = "full";
  EXPECT_EQ(b.steps(), std::llround(2 * n / 4));
  b.job.client.batch = 0;  // whole passes over the pool
  EXPECT_EQ(b.steps(), 2);
  b.job.sampler.kind = "osmd";  // per-round counts
  b.job.client.epochs = 1;
  EXPECT_EQ(b.steps(), 1);
  b.job.client.steps = 5;
  b.job.client.batch = 1;
  EXPECT_EQ(b.steps(), 15);
}

TEST(Bounds, CentralizedHasOneParticipant) {
  BoundCase b;
  b.job.client.kind = "ditto";
  b.job.sampler.kind = "osmd";
  b.job.sampler.availability = "0.5";
  b.job.aggregator.kind = "propfair";
  b.job.server.optimizer = "adam";
  b.job.server.role = ServerRole::kDedicated;
  const auto bound = b.centralized();
  EXPECT_EQ(make_sampler(bound, b.federation)->per_round(), 1);
  EXPECT_TRUE(bound.client.pooled);
  EXPECT_EQ(bound.client.kind, "sgd");
  EXPECT_EQ(bound.sampler.availability, "always");
  EXPECT_EQ(bound.aggregator.kind, "fedavg");
  EXPECT_EQ(bound.server.optimizer, "sgd");
  EXPECT_EQ(bound.server.role, ServerRole::kDedicated);
}

TEST(Bounds, LocalDrawsAsManyAsAFederatedRound) {
  BoundCase b;
  b.job.sampler.kind = "osmd";
  b.job.sampler.availability = "0.5";
  b.job.client.personal = "fc*";
  b.job.client.steps = 4;
  const auto bound = bound_job(b.job, b.federation, Bound::kLocal);
  EXPECT_EQ(bound.sampler.kind, "uniform");
  EXPECT_EQ(make_sampler(bound, b.federation)->per_round(), 3);
  EXPECT_EQ(bound.sampler.availability, "0.5");
  EXPECT_EQ(bound.client.steps, 4);
  EXPECT_TRUE(bound.client.alone);
  EXPECT_FALSE(bound.client.pooled);
  b.job.sampler.kind = "full";
  EXPECT_EQ(make_sampler(bound_job(b.job, b.federation, Bound::kLocal), b.federation)->per_round(),
            7);
}

TEST(Bounds, AllTakePartWhereThereAreFewer) {
  BoundCase b;
  b.job.sampler.per_round = 7;
  const int64_t all = b.steps();
  b.job.sampler.per_round = 8;
  EXPECT_EQ(b.steps(), all);
}

}  // namespace
}  // namespace hanse
