// Checks of ranks that share a host, and of work that free ranks take.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/communicator_checks.hpp"
#include "hanse/comm/work_queue.hpp"

namespace hanse {

namespace {

// Ranks whose hosts have this rank's host name, in order.
std::vector<int> neighbours(Communicator& comm) {
  constexpr std::size_t kLength = 64;
  std::vector<std::byte> names(kLength * static_cast<std::size_t>(comm.size()));
  const auto name_of = [&](int rank) {
    return reinterpret_cast<char*>(&names[kLength * static_cast<std::size_t>(rank)]);
  };
  gethostname(name_of(comm.rank()), kLength - 1);
  comm.allgatherv(std::span(names), std::vector<int64_t>(comm.size(), kLength));
  std::vector<int> same;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (std::string(name_of(rank)) == name_of(comm.rank())) same.push_back(rank);
  }
  return same;
}

// Every item of every phase is taken by exactly one of `takers`.
void take_all(Communicator& comm, WorkQueue& queue, int first_taker) {
  for (const auto& [items, length] :
       {std::pair<int64_t, int64_t>{5, 1}, {0, 1}, {1, 3}, {200, 7}, {0, 2}, {3, 1}}) {
    queue.start(items, length);
    std::vector<int64_t> mine;
    if (comm.rank() < first_taker) {
      queue.serve();
    } else {
      for (WorkQueue::Piece piece; !(piece = queue.next()).empty();) {
        EXPECT_LE(piece.end - piece.begin, length);
        for (int64_t item = piece.begin; item < piece.end; ++item) mine.push_back(item);
      }
    }
    auto taken = comm.gatherv(std::span<const int64_t>(mine), 0);
    comm.barrier();
    if (comm.rank() != 0) continue;
    std::sort(taken.begin(), taken.end());
    std::vector<int64_t> expected(static_cast<std::size_t>(items));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(taken, expected) << items << " items from rank " << first_taker;
  }
}

// The ranks of one colour are `members` of `comm`, in this order. A collective of theirs may stand
// between two of the others.
void check_part(Communicator& comm, int64_t colour, const std::vector<int>& members) {
  const auto part = comm.split(colour);
  ASSERT_EQ(part->size(), static_cast<int>(members.size()));
  EXPECT_EQ(members[static_cast<std::size_t>(part->rank())], comm.rank());
  int64_t rank = comm.rank();
  part->bcast(std::span(&rank, 1), part->size() - 1);
  EXPECT_EQ(rank, members.back());
  EXPECT_EQ(comm.allreduce_one(int64_t{1}, ReduceOp::kSum), comm.size());
  EXPECT_EQ(part->allreduce_one(int64_t{comm.rank()}, ReduceOp::kSum),
            std::accumulate(members.begin(), members.end(), int64_t{0}));
  const int64_t number = comm.rank() + 7;
  const auto numbers = part->gatherv(std::span(&number, 1), 0);
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], members[i] + 7);
}

}  // namespace

void check_split(Communicator& comm) {
  check_part(comm, kByHost, neighbours(comm));
  const int64_t large = int64_t{1} << 40;
  for (const int64_t parts : {1, 2, 3, 1000}) {
    const auto colour_of = [&](int rank) { return large + (5 * rank + 1) % parts; };
    std::vector<int> same;
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (colour_of(rank) == colour_of(comm.rank())) same.push_back(rank);
    }
    check_part(comm, colour_of(comm.rank()), same);
  }
  const auto half = comm.split(comm.rank() % 2);
  const auto quarter = half->split(half->rank() % 2);
  EXPECT_EQ(quarter->allreduce_one(int64_t{comm.rank() % 4}, ReduceOp::kSum),
            quarter->size() * (comm.rank() % 4));
}

void check_allocate_shared(Communicator& comm) {
  const auto host = comm.split(kByHost);
  for (const int64_t bytes : {1, 8, 4097, 1000000}) {
    const auto memory = host->allocate_shared(bytes);
    EXPECT_TRUE(std::all_of(memory.get(), memory.get() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    host->barrier();
    const auto byte_of = [](int64_t i) { return static_cast<std::byte>(i % 251 + 1); };
    for (int64_t i = host->rank(); i < bytes; i += host->size()) memory.get()[i] = byte_of(i);
    host->barrier();
    int64_t wrong = 0;
    for (int64_t i = 0; i < bytes; ++i) wrong += memory.get()[i] != byte_of(i);
    EXPECT_EQ(wrong, 0) << bytes << " bytes";
    host->barrier();
  }
  const auto first = host->allocate_shared(64);
  const auto second = host->allocate_shared(64);
  EXPECT_NE(first.get(), second.get());
  host->barrier();
}

void check_work_queue(Communicator& comm) {
  const auto host = comm.split(kByHost);
  for (int first_taker = 0; first_taker < host->size(); ++first_taker) {
    take_all(*host, *make_shared_queue(*host, host->size() - first_taker), first_taker);
  }
  if (comm.size() > 1) take_all(comm, *make_served_queue(comm), 1);
}

}  // namespace hanse
