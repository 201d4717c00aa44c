#include <atomic>
#include <functional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "comm/communicator_checks.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "support/thread_communicator.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Case = std::tuple<CommunicatorCheck, int>;
class ThreadCommunicator : public testing::TestWithParam<Case> {};

TEST_P(ThreadCommunicator, Check) {
  const auto& [check, ranks] = GetParam();
  run_threads(ranks, check.run);
}

INSTANTIATE_TEST_SUITE_P(All, ThreadCommunicator,
                         testing::Combine(testing::ValuesIn(communicator_checks()),
                                          testing::Values(1, 2, 3, 4)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param).name +
                                  std::to_string(std::get<1>(instance.param));
                         });

TEST(RunThreads, EveryRankRunsOnce) {
  std::vector<std::atomic<int>> runs(5);
  run_threads(5, [&](Communicator& comm) {
    EXPECT_EQ(comm.size(), 5);
    ++runs[static_cast<std::size_t>(comm.rank())];
  });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(SingleCommunicator, IsOneRankOfItsOwn) {
  const auto comm = make_single_communicator();
  EXPECT_EQ(comm->rank(), 0);
  EXPECT_EQ(comm->size(), 1);
  for (const auto& check : communicator_checks()) check.run(*comm);
}

TEST(AgreeOn, LetsBrokenCommunicationThrough) {
  const auto comm = make_single_communicator();
  EXPECT_THROW(agree_on(*comm, [] { throw CommError("gone", 0, 1); }), CommError);
}

// Rank 1 gives up while the others are in `wait`: they get a CommError, the caller rank 1's error.
void expect_no_hang(const std::function<void(Communicator&, Communicator&)>& wait) {
  std::atomic<int> told{0};
  expect_error<std::runtime_error>(
      [&] {
        run_threads(3, [&](Communicator& comm) {
          const auto host = comm.split_by_host();
          if (comm.rank() == 1) throw std::runtime_error("rank 1 gives up");
          try {
            wait(comm, *host);
          } catch (const CommError&) {
            ++told;
            throw;
          }
        });
      },
      {"rank 1 gives up"});
  EXPECT_EQ(told, 2);
}

TEST(RunThreads, OneThatThrowsEndsTheOthersCollectives) {
  expect_no_hang([](Communicator& comm, Communicator&) { comm.barrier(); });
  expect_no_hang(
      [](Communicator& comm, Communicator&) { comm.allreduce_one(1.0, ReduceOp::kSum); });
  expect_no_hang([](Communicator& comm, Communicator&) { comm.allocate_shared(8); });
  expect_no_hang([](Communicator& comm, Communicator&) { comm.split_by_host(); });
}

TEST(RunThreads, OneThatThrowsEndsCollectivesOfTheHostToo) {
  expect_no_hang([](Communicator&, Communicator& host) { host.barrier(); });
  expect_no_hang([](Communicator&, Communicator& host) { host.split_by_host(); });
}

}  // namespace
}  // namespace hanse
