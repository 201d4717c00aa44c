// mpirun -n N test_mpi_communicator
#include <gtest/gtest.h>

#include "comm/communicator_checks.hpp"
#include "comm/pipeline.hpp"
#include "hanse/base/mpirun.hpp"
#include "hanse/comm/mpi_environment.hpp"
#include "support/mpi_world.hpp"

namespace hanse {
namespace {

class MpiCommunicator : public testing::TestWithParam<CommunicatorCheck> {};

TEST_P(MpiCommunicator, DoesWhatEveryCommunicatorDoes) { GetParam().run(mpi_world()); }

INSTANTIATE_TEST_SUITE_P(All, MpiCommunicator, testing::ValuesIn(communicator_checks()),
                         [](const auto& instance) { return instance.param.name; });

TEST(MpiEnvironment, KnowsWhatMpirunHasStarted) {
  EXPECT_TRUE(started_as_rank());
  EXPECT_EQ(launch().rank, mpi_world().rank());
  EXPECT_EQ(launch().ranks, mpi_world().size());
  EXPECT_NE(MpiEnvironment::library_version(), "");
}

// A chain of ranks on hosts of their own but for rank 2, and chunks whose values take 1 to 8 bytes.
TEST(Pipeline, PackedSumsAreExact) {
  constexpr int64_t kChunk = 100;
  const int rank = mpi_world().rank();
  const int size = mpi_world().size();
  const auto own = [](int64_t i, int of) {
    const int64_t limit = int64_t{1} << (8 * (i / kChunk % 8) + 3);  // sums of four stay in range
    return (i % 2 ? 1 : -1) * (limit - i % 7) * (of + 1);
  };
  for (const int64_t count : {kChunk - 1, 8 * kChunk, 33 * kChunk + 3}) {
    std::vector<int64_t> data;
    for (int64_t i = 0; i < count; ++i) data.push_back(own(i, rank));
    TreePlace place{.parent = rank - 1, .parent_elsewhere = rank > 0 && rank != 2};
    if (rank + 1 < size) place.children = {rank + 1};
    std::vector<std::byte> scratch;
    Pipeline up =
        Pipeline::upward(MPI_COMM_WORLD, place,
                         {reinterpret_cast<std::byte*>(data.data()), count, MPI_INT64_T, 8, kChunk},
                         MPI_SUM, scratch);
    while (!up.done()) up.advance();
    for (int64_t i = 0; rank == 0 && i < count; ++i) {
      int64_t sum = 0;
      for (int of = 0; of < size; ++of) sum += own(i, of);
      ASSERT_EQ(data[static_cast<std::size_t>(i)], sum) << i;
    }
  }
}

}  // namespace
}  // namespace hanse
