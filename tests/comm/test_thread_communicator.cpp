#include <atomic>
#include <functional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "comm/communicator_checks.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/simulated_time.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_state.hpp"
#include "hanse/comm/cluster.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Case = std::tuple<CommunicatorCheck, int>;
class ThreadCommunicator : public testing::TestWithParam<Case> {};

TEST_P(ThreadCommunicator, DoesWhatEveryCommunicatorDoes) {
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

// Ranks on hosts of their own, with links of 1 MB/s.
Cluster hosts(int ranks) {
  return {.ranks = ranks,
          .hosts = ranks,
          .network = {.latency_s = 1, .rate = 1e6},
          .memory = {.latency_s = 0.01, .rate = 1e8}};
}

void run_simulated(int ranks, const std::function<void(Communicator&)>& body) {
  run_threads(ranks, [&](Communicator& comm) {
    const SimulatedTime time;
    body(*make_simulated_communicator(comm, hosts(comm.size())));
  });
}

// It does what every communicator does, and its bytes are the same.
class SimulatedCommunicator : public testing::TestWithParam<Case> {};

TEST_P(SimulatedCommunicator, DoesWhatEveryCommunicatorDoes) {
  const auto& [check, ranks] = GetParam();
  run_simulated(ranks, check.run);
}

INSTANTIATE_TEST_SUITE_P(All, SimulatedCommunicator,
                         testing::Combine(testing::ValuesIn(communicator_checks()),
                                          testing::Values(1, 3, 4)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param).name +
                                  std::to_string(std::get<1>(instance.param));
                         });

constexpr double kOwnWork_s = 0.5;  // of a check, at most

TEST(SimulatedRanks, AllGoOnWithTheLatestWhenTheMessageIsThere) {
  run_simulated(3, [](Communicator& comm) {
    pass_time(100.0 * comm.rank());
    std::vector<float> row(2'500'000);
    comm.bcast(std::span(row), 0);
    double now_s = 200 + transfer_s(hosts(3), 10e6);
    EXPECT_NEAR(simulated_seconds(), now_s, kOwnWork_s);
    EXPECT_NEAR(comm.seconds(), now_s - 100 * comm.rank(), kOwnWork_s);
    comm.barrier();
    EXPECT_NEAR(simulated_seconds(), now_s += 2, kOwnWork_s);
    comm.allreduce_one(1.0, ReduceOp::kSum);
    EXPECT_NEAR(simulated_seconds(), now_s += 4, kOwnWork_s);
  });
}

TEST(SimulatedRanks, AnExchangeOverlaps) {
  run_simulated(3, [](Communicator& comm) {
    std::vector<int64_t> sum(1'250'000);
    std::vector<float> row(sum.size());
    int64_t steps = 0;
    const ExchangeTimes times =
        comm.exchange(std::span(sum), 1, std::span(row), [&](int64_t, std::span<float> part) {
          pass_time(30 * static_cast<double>(part.size()) / 1.25e6);
          ++steps;
        });
    EXPECT_NEAR(simulated_seconds(), exchange_s(hosts(3), 10e6, 5e6, 30), kOwnWork_s);
    if (comm.rank() != 0) return;
    EXPECT_GT(steps, 0);
    EXPECT_NEAR(times.step_s, 30, kOwnWork_s);
    EXPECT_NEAR(times.reduce_s, transfer_s(hosts(3), 10e6), kOwnWork_s);
  });
}

TEST(SimulatedRanks, AMessageArrivesWhenItHasBeenSent) {
  run_simulated(3, [](Communicator& comm) {
    std::vector<std::byte> data(1'000'000);
    if (comm.rank() == 0) {
      pass_time(50);
      comm.send(std::span<const std::byte>(data), 2);
      EXPECT_NEAR(simulated_seconds(), 51, kOwnWork_s);
    } else if (comm.rank() == 2) {
      EXPECT_EQ(comm.recv(std::span(data), Communicator::kAnyRank), 0);
      EXPECT_NEAR(simulated_seconds(), 52, kOwnWork_s);
    } else {
      EXPECT_NEAR(simulated_seconds(), 0, kOwnWork_s);
    }
    EXPECT_EQ(comm.bytes_moved(), comm.rank() == 0 ? 1'000'000 : 0);
  });
}

// Two ranks of one host meet in no time, two of different hosts in that of a message.
TEST(SimulatedRanks, AreSplitWithTheirHosts) {
  run_threads(4, [](Communicator& comm) {
    const SimulatedTime time;
    Cluster cluster = hosts(4);
    cluster.hosts = 2;
    const auto ranks = make_simulated_communicator(comm, cluster);
    ranks->split(comm.rank() / 2)->barrier();
    EXPECT_NEAR(simulated_seconds(), 0.01, kOwnWork_s);
    ranks->split(comm.rank() % 2)->barrier();
    EXPECT_NEAR(simulated_seconds(), 1.01, kOwnWork_s);
  });
}

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

TEST(BcastState, BringsEveryTypeOfArray) {
  run_threads(3, [](Communicator& comm) {
    State state;
    if (comm.rank() == 0) {
      state.put("a/whole", std::vector<int64_t>{3, -1});
      state.put("a/real", 0.5);
      state.put("b/short", std::vector<float>{1.5F});
      state.put("b/none", std::vector<double>());
      state.put_text("text", "words");
    }
    if (comm.rank() == 1) state.put("mine", 7.0);  // which goes
    bcast_state(comm, state);
    EXPECT_EQ(state.arrays().size(), 5U);
    EXPECT_EQ(state.get<int64_t>("a/whole"), (std::vector<int64_t>{3, -1}));
    EXPECT_EQ(state.get_one<double>("a/real"), 0.5);
    EXPECT_EQ(state.get<float>("b/short"), std::vector<float>{1.5F});
    EXPECT_TRUE(state.get<double>("b/none").empty());
    EXPECT_EQ(state.get_text("text"), "words");
    State empty;
    bcast_state(comm, empty);
    EXPECT_TRUE(empty.arrays().empty());
  });
}

// Rank 1 gives up while the others are in `wait`: they get a CommError, the caller rank 1's error.
void expect_no_hang(const std::function<void(Communicator&, Communicator&)>& wait) {
  std::atomic<int> told{0};
  expect_error<std::runtime_error>(
      [&] {
        run_threads(3, [&](Communicator& comm) {
          const auto host = comm.split(kByHost);
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
  expect_no_hang([](Communicator& comm, Communicator&) { comm.split(kByHost); });
}

TEST(RunThreads, OneThatThrowsEndsCollectivesOfTheHostToo) {
  expect_no_hang([](Communicator&, Communicator& host) { host.barrier(); });
  expect_no_hang([](Communicator&, Communicator& host) { host.split(kByHost); });
}

}  // namespace
}  // namespace hanse
