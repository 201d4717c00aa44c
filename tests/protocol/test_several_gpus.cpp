// Rounds of ranks that have a GPU each: cohorts are shared out, sums and updates go by NCCL, and
// the bits are those of one GPU.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "protocol/cohort_kinds.hpp"

namespace hanse {
namespace {

// What a round sends between devices, and what goes by the hosts.
std::vector<std::pair<std::string, KindsJob>> jobs() {
  const KindsJob plain{plain_steps()};
  KindsJob server = plain, rows = plain, columns = plain, state = plain, whole = plain;
  server.job.server.optimizer = "adam";
  rows.job.aggregator.kind = "fedmgda+";
  columns.job.aggregator.kind = "median";
  columns.job.aggregator.byzantine.number = 1;
  state.job.client.kind = "scaffold";
  whole.cohort = 7;  // one rank trains, the others have no cohort
  return {{"sums", plain},   {"steps of the server in parts", server},
          {"updates", rows}, {"rows in the hosts' memory", columns},
          {"states", state}, {"ranks without a cohort", whole}};
}

TEST(SeveralGpus, HaveTheBitsOfOne) {
  if (torch_library().gpu.all().empty()) GTEST_SKIP() << "no GPU, not even one that pretends";
  torch_library().set_threads(1);
  for (auto [name, job] : jobs()) {
    job.device = torch_library().gpu.use(0, Precision::kFloat32);
    const Outcome alone = outcome_of(1, job);
    job.own_gpus = true;
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const Outcome together = outcome_of(ranks, job);
      EXPECT_EQ(together.row, alone.row) << name << " on " << ranks << " GPUs";
      EXPECT_EQ(together.losses, alone.losses) << name << " on " << ranks << " GPUs";
    }
  }
}

}  // namespace
}  // namespace hanse
