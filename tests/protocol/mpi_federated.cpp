// mpirun -n N test_mpi_federated: training over N processes gives the bits of training alone.
#include <gtest/gtest.h>

#include "protocol/tiny_training.hpp"
#include "support/mpi_world.hpp"

namespace hanse {
namespace {

constexpr int64_t kRounds = 8;

TEST(MpiFederated, SameBitsAsAlone) {
  for (const bool stateful : {false, true}) {
    for (const bool by_losses : {false, true}) {
      TinyJob job;
      job.stateful = stateful;
      job.by_losses = by_losses;
      const auto alone = train_threads(1, job, kRounds);
      for (const ServerRole role : {ServerRole::kShared, ServerRole::kDedicated}) {
        for (const AskedDispatch dispatch : {AskedDispatch::kPlanned, AskedDispatch::kShared}) {
          job.server.role = role;
          job.comm.dispatch = dispatch;
          const auto together = train_on(mpi_world(), job, kRounds);
          EXPECT_TRUE(mpi_world().rank() != 0 || together == alone)
              << name_of(role) << " " << name_of(dispatch);
        }
      }
    }
  }
}

TEST(MpiFederated, SameBitsAsAloneUnderEverySampler) {
  for (const char* sampler : kTinySamplers) {
    TinyJob job;
    job.sampler = sampler;
    job.stateful = job.regret = true;
    job.availability = [] { return make_block_availability(kClients, 4, 2); };  // 2 or 3 are there
    job.per_round = 2;
    const auto together = train_on(mpi_world(), job, kRounds);
    EXPECT_TRUE(mpi_world().rank() != 0 || together == train_threads(1, job, kRounds)) << sampler;
  }
}

}  // namespace
}  // namespace hanse
