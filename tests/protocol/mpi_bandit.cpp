// mpirun -n N test_mpi_bandit: a bandit over N processes gives the bits of one alone.
#include <limits>

#include <gtest/gtest.h>

#include "protocol/bandit_ranks.hpp"
#include "support/mpi_world.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

Played play_alone(const BanditSetup& setup) {
  return play_on(*make_single_communicator(), setup, 10);
}

TEST(MpiBandit, SameBitsAsAlone) {
  for (const double gamma : {0.0, 0.8, std::numeric_limits<double>::infinity()}) {
    for (const auto statistics : {AskedStatistics::kPacked, AskedStatistics::kPerArm}) {
      const BanditSetup setup = network_setup(gamma, statistics);
      const Played together = play_on(mpi_world(), setup, 10);
      EXPECT_TRUE(mpi_world().rank() != 0 || together == play_alone(setup))
          << gamma << " " << name_of(statistics);
    }
  }
}

TEST(MpiBandit, EveryModelHasTheSameBitsAsAlone) {
  for (const BanditSetup& setup : setups_of_models()) {
    const Played together = play_on(mpi_world(), setup, 10);
    EXPECT_TRUE(mpi_world().rank() != 0 || together == play_alone(setup))
        << static_cast<int>(setup.model);
  }
}

}  // namespace
}  // namespace hanse
