// mpirun -n N test_mpi_communicator
#include <gtest/gtest.h>

#include "comm/communicator_checks.hpp"
#include "hanse/base/mpirun.hpp"
#include "hanse/comm/mpi_environment.hpp"
#include "support/mpi_world.hpp"

namespace hanse {
namespace {

class MpiCommunicator : public testing::TestWithParam<CommunicatorCheck> {};

TEST_P(MpiCommunicator, Check) { GetParam().run(mpi_world()); }

INSTANTIATE_TEST_SUITE_P(All, MpiCommunicator, testing::ValuesIn(communicator_checks()),
                         [](const auto& instance) { return instance.param.name; });

TEST(MpiEnvironment, KnowsWhatMpirunHasStarted) {
  EXPECT_TRUE(started_as_rank());
  EXPECT_EQ(launched_rank(), mpi_world().rank());
  EXPECT_EQ(launched_ranks(), mpi_world().size());
  EXPECT_NE(MpiEnvironment::library_version(), "");
  EXPECT_NE(mpi_world().native(), nullptr);
}

}  // namespace
}  // namespace hanse
