// mpirun -n N test_mpi_online: an online run over N processes gives the bits of one alone.
#include <gtest/gtest.h>

#include "protocol/small_online.hpp"
#include "support/mpi_world.hpp"

namespace hanse {
namespace {

TEST(MpiOnline, SameBitsAsAlone) {
  for (const OnlineCase& c : online_cases()) {
    const auto together = run_on(mpi_world(), c, 9);
    EXPECT_TRUE(mpi_world().rank() != 0 || together == run_on_threads(1, c, 9)) << c.name;
  }
}

}  // namespace
}  // namespace hanse
