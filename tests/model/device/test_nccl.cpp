// The communicator of NCCL over a library that stands in for it: what it calls, in which order, and
// what it does after an error. The ranks are threads, their devices the host's memory.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "model/device/device.hpp"
#include "model/device/fake_nccl.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Calls = std::vector<std::string>;
using Counts = std::vector<int64_t>;

std::string device_of(int rank) { return "cuda:" + std::to_string(rank); }

// The calls of this rank since the last time, without what asks for the end of the stream.
Calls take_calls() {
  Calls calls = std::exchange(fake::calls(), {});
  std::erase_if(calls, [](const std::string& call) { return call.starts_with("query"); });
  return calls;
}

// `body` on each rank with a communicator of NCCL.
void on_ranks(int ranks, const std::function<void(Communicator&, DeviceCommunicator&)>& body) {
  run_threads(ranks, [&](Communicator& comm) {
    fake::faults() = {};
    fake::calls().clear();
    const auto devices = make_nccl_communicator(comm, device_of(comm.rank()));
    body(comm, *devices);
  });
}

TEST(Nccl, RanksMeetByTheIdOfRankZeroAndEndInOrder) {
  run_threads(3, [&](Communicator& comm) {
    fake::faults() = {};
    fake::calls().clear();
    const std::string at = " on " + device_of(comm.rank());
    auto devices = make_nccl_communicator(comm, device_of(comm.rank()));
    Calls expected{"CommInitRank " + std::to_string(comm.rank()) + " of 3" + at};
    if (comm.rank() == 0) expected.insert(expected.begin(), "GetUniqueId" + at);
    EXPECT_EQ(take_calls(), expected);
    devices.reset();
    EXPECT_EQ(take_calls(), (Calls{"CommDestroy"}));
  });
}

// Values that no other rank and place has.
at::Tensor own_values(Communicator& comm, int64_t n, at::ScalarType type) {
  return (at::arange(n, at::kDouble) * 10 + comm.rank() + 1).to(type);
}

void expect_sum(Communicator& comm, DeviceCommunicator& devices, at::ScalarType type, int root) {
  constexpr int64_t kValues = 5;
  const int64_t before = devices.bytes_moved();
  at::Tensor values = own_values(comm, kValues, type);
  take_calls();
  devices.sum(values, root);
  const std::string name = type == at::kLong ? "int64" : "float";
  EXPECT_EQ(take_calls(), (Calls{"Reduce n=5 " + name + " root=" + std::to_string(root) + " on " +
                                 device_of(comm.rank())}));
  const int64_t ranks = comm.size();
  const at::Tensor sum =
      (at::arange(kValues, at::kDouble) * 10 * ranks + ranks * (ranks + 1) / 2).to(type);
  const bool is_root = comm.rank() == root;
  EXPECT_TRUE(!is_root || values.equal(sum)) << values;
  const int64_t bytes = kValues * (type == at::kLong ? 8 : 4);
  EXPECT_EQ(devices.bytes_moved() - before, is_root ? bytes * (ranks - 1) : 0);
}

TEST(Nccl, SumsIntegersAndFloatsAtTheRoot) {
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, [&](Communicator& comm, DeviceCommunicator& devices) {
      expect_sum(comm, devices, at::kLong, 0);
      expect_sum(comm, devices, at::kFloat, comm.size() - 1);
    });
  }
}

// Part r of the sums to rank r, and from there to all.
TEST(Nccl, PartsOfASumGoToTheirRanksAndBack) {
  on_ranks(3, [](Communicator& comm, DeviceCommunicator& devices) {
    const std::string at = " on " + device_of(comm.rank());
    at::Tensor part = at::full({2}, -1, at::kLong);
    take_calls();
    devices.reduce_scatter(own_values(comm, 6, at::kLong), part);
    const int64_t first = 60 * comm.rank() + 6;  // 1 + 2 + 3, and three times 10 i
    EXPECT_TRUE(part.equal(at::tensor({first, first + 30}))) << part;
    EXPECT_EQ(take_calls(), (Calls{"ReduceScatter n=2 int64" + at}));
    EXPECT_EQ(devices.bytes_moved(), 2 * 8 * 2);
    at::Tensor all = at::full({6}, -1.0F);
    devices.all_gather(part.to(at::kFloat), all);
    EXPECT_TRUE(all.equal(at::tensor({6.0F, 36.0F, 66.0F, 96.0F, 126.0F, 156.0F}))) << all;
    EXPECT_EQ(take_calls(), (Calls{"AllGather n=2 float" + at}));
    EXPECT_EQ(devices.bytes_moved(), 2 * 8 * 2 + 2 * 4 * 2);
  });
}

TEST(Nccl, TheRootsRowComesToDevicesAndHosts) {
  on_ranks(3, [](Communicator& comm, DeviceCommunicator& devices) {
    const std::vector<float> sent{1, -2, 3.5F, 0};
    std::vector<float> row = comm.rank() == 1 ? sent : std::vector<float>(4, -7);
    at::Tensor on_device = at::full({4}, 9.0F);
    take_calls();
    devices.bcast(row, on_device, 1);
    EXPECT_EQ(take_calls(), (Calls{"Broadcast n=4 float root=1 on " + device_of(comm.rank())}));
    EXPECT_EQ(row, sent);
    EXPECT_TRUE(on_device.equal(at::tensor(at::ArrayRef<float>(sent))));
    EXPECT_EQ(devices.bytes_moved(), comm.rank() == 1 ? 4 * 4 * 2 : 0);
  });
}

// counts[i][j] go from rank i to rank j.
const std::vector<Counts> kCounts{{2, 0, 3}, {1, 4, 0}, {0, 0, 1}};

TEST(Nccl, EveryRankSendsEveryOneItsOwn) {
  on_ranks(3, [](Communicator& comm, DeviceCommunicator& devices) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    const Counts& sends = kCounts[rank];
    Counts receives;
    std::vector<float> expected, given;
    for (std::size_t peer = 0; peer < 3; ++peer) {
      receives.push_back(kCounts[peer][rank]);
      const auto value = [](std::size_t from, std::size_t to, int64_t i) {
        return static_cast<float>(100 * from + 10 * to + static_cast<std::size_t>(i));
      };
      for (int64_t i = 0; i < receives.back(); ++i) expected.push_back(value(peer, rank, i));
      for (int64_t i = 0; i < sends[peer]; ++i) given.push_back(value(rank, peer, i));
    }
    at::Tensor in = at::full({std::ssize(expected)}, -1.0F);
    take_calls();
    devices.alltoallv(at::tensor(given), sends, in, receives);
    EXPECT_TRUE(in.equal(at::tensor(expected))) << in;
    const Calls calls = take_calls();
    const std::string at = " on " + device_of(comm.rank());
    if (rank == 0) {
      EXPECT_EQ(calls, (Calls{"GroupStart" + at, "Recv n=1 float from=1" + at,
                              "Send n=3 float to=2" + at, "GroupEnd" + at}));
    }
    EXPECT_EQ(devices.bytes_moved(), (Counts{12, 4, 0})[rank]);
  });
}

TEST(Nccl, ACollectiveEndsWithItsStream) {
  on_ranks(1, [](Communicator&, DeviceCommunicator& devices) {
    fake::faults().queries_to_go = 3;
    at::Tensor values = at::ones({2});
    fake::calls().clear();
    devices.sum(values, 0);
    EXPECT_EQ(fake::calls(), (Calls{"Reduce n=2 float root=0 on cuda:0", "query on cuda:0",
                                    "query on cuda:0", "query on cuda:0", "query on cuda:0"}));
  });
}

// NCCL's own end waits for the other ranks.
TEST(Nccl, ARankThatUnwindsDoesNotWaitForTheOthers) {
  run_threads(2, [](Communicator& comm) {
    fake::faults() = {};
    const auto work = [&] {
      const auto devices = make_nccl_communicator(comm, device_of(comm.rank()));
      fake::calls().clear();
      if (comm.rank() == 1) throw Error("this rank alone has an error");
    };
    if (comm.rank() == 1) {
      expect_error<Error>(work, {"this rank alone has an error"});
      EXPECT_EQ(fake::calls(), Calls());
    } else {
      work();
      EXPECT_EQ(fake::calls(), (Calls{"CommDestroy"}));
    }
  });
}

void expect_failure(const fake::Faults& faults, const Calls& expected_calls,
                    std::initializer_list<std::string> message) {
  on_ranks(1, [&](Communicator& comm, DeviceCommunicator&) {
    auto devices = make_nccl_communicator(comm, "cuda:0");
    take_calls();
    fake::faults() = faults;
    at::Tensor values = at::ones({2});
    expect_error<CommError>([&] { devices->sum(values, 0); }, message);
    EXPECT_EQ(take_calls(), expected_calls);
    devices.reset();  // neither Destroy nor Abort, although nothing unwinds any more
    EXPECT_EQ(take_calls(), Calls());
    fake::faults() = {};
  });
}

// An error of a kernel before: NCCL would only say that it saw one.
TEST(Nccl, TheDevicesOwnErrorIsToldBeforeTheCollective) {
  expect_failure({.device_error = 700}, {}, {"the GPU failed: an illegal memory access"});
}

TEST(Nccl, ErrorsOfCallsAndOfWhatRunsBehindThemAreTold) {
  const Calls called{"Reduce n=2 float root=0 on cuda:0"};
  expect_failure({.call_error = 2}, called, {"NCCL: unhandled system error"});
  expect_failure({.async_error = 6}, called, {"NCCL: remote process exited"});
}

TEST(Nccl, ANewKernelsWorkBeforeACollectiveIsNoError) {
  on_ranks(1, [](Communicator&, DeviceCommunicator& devices) {
    fake::faults().device_error = 600;  // not ready
    take_calls();
    at::Tensor values = at::full({2}, 3, at::kFloat);
    EXPECT_NO_THROW(devices.sum(values, 0));
    EXPECT_TRUE(values.equal(at::full({2}, 3, at::kFloat)));  // the sum of one rank's
    EXPECT_EQ(take_calls(), Calls({"Reduce n=2 float root=0 on cuda:0"}));
    fake::faults() = {};
  });
}

TEST(Nccl, TheVersionIsThatOfTheLibrary) { EXPECT_EQ(nccl_version(), "2.30.7"); }

}  // namespace
}  // namespace hanse
