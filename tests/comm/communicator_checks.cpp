#include "comm/communicator_checks.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"

namespace hanse {

namespace {

// The last two are long enough to go in chunks along a tree: an even number of them, and not.
constexpr int64_t kLengths[] = {0, 1, 2, 17, 1000, 65536, 100003};

// Distinct for the ranks at every index, with another order of ranks from index to index; sums over
// four ranks fit a byte, and every type holds them exactly.
template <class T>
T value(int rank, int64_t i) {
  return static_cast<T>((rank * 3 + i * 5) % 13 + (rank + i) % 4);
}

template <class T>
std::vector<T> values(int rank, int64_t length) {
  std::vector<T> result(static_cast<std::size_t>(length));
  for (int64_t i = 0; i < length; ++i) result[static_cast<std::size_t>(i)] = value<T>(rank, i);
  return result;
}

// Element by element over the ranks, the slow way.
template <class T>
std::vector<T> reduced(int size, int64_t length, ReduceOp op) {
  std::vector<T> result;
  for (int64_t i = 0; i < length; ++i) {
    int64_t sum = 0;
    int64_t low = 1000;
    int64_t high = -1;
    for (int rank = 0; rank < size; ++rank) {
      const auto x = static_cast<int64_t>(value<T>(rank, i));
      sum += x;
      low = std::min(low, x);
      high = std::max(high, x);
    }
    result.push_back(static_cast<T>(op == ReduceOp::kSum   ? sum
                                    : op == ReduceOp::kMin ? low
                                                           : high));
  }
  return result;
}

template <class T>
void bcast_type(Communicator& comm) {
  for (int root = 0; root < comm.size(); ++root) {
    for (const int64_t length : kLengths) {
      auto data = values<T>(comm.rank(), length);
      comm.bcast(std::span(data), root);
      EXPECT_EQ(data, values<T>(root, length)) << "root " << root << ", length " << length;
    }
  }
}

void check_bcast(Communicator& comm) {
  bcast_type<int64_t>(comm);
  bcast_type<double>(comm);
  bcast_type<float>(comm);
  bcast_type<std::byte>(comm);
}

template <class T>
void reduce_type(Communicator& comm) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
    for (int root = 0; root < comm.size(); ++root) {
      for (const int64_t length : kLengths) {
        auto data = values<T>(comm.rank(), length);
        comm.reduce(std::span(data), op, root);
        if (comm.rank() == root) {
          EXPECT_EQ(data, reduced<T>(comm.size(), length, op))
              << "root " << root << ", length " << length << ", op " << static_cast<int>(op);
        }
      }
    }
  }
}

void check_reduce(Communicator& comm) {
  reduce_type<int64_t>(comm);
  reduce_type<double>(comm);
  reduce_type<float>(comm);
  reduce_type<std::byte>(comm);
}

void check_allreduce(Communicator& comm) {
  auto data = values<double>(comm.rank(), 33);
  comm.allreduce(std::span(data), ReduceOp::kSum);
  EXPECT_EQ(data, reduced<double>(comm.size(), 33, ReduceOp::kSum));
  const int64_t size = comm.size();
  EXPECT_EQ(comm.allreduce_one(int64_t{comm.rank() + 1}, ReduceOp::kSum), size * (size + 1) / 2);
  EXPECT_EQ(comm.allreduce_one(10.5 + comm.rank(), ReduceOp::kMin), 10.5);
  EXPECT_EQ(comm.allreduce_one(int64_t{-comm.rank()}, ReduceOp::kMax), 0);
}

// Rank r sends (r * 7 + 3) % 5 elements: 3, 0, 2, 4; so one rank sends none.
void check_gatherv(Communicator& comm) {
  const auto length = [](int rank) { return int64_t{(rank * 7 + 3) % 5}; };
  for (int root = 0; root < comm.size(); ++root) {
    const auto mine = values<int64_t>(comm.rank(), length(comm.rank()));
    std::vector<int64_t> counts{-1};
    const auto all = comm.gatherv(std::span<const int64_t>(mine), root, &counts);
    std::vector<int64_t> expected, expected_counts;
    for (int rank = 0; comm.rank() == root && rank < comm.size(); ++rank) {
      for (const int64_t x : values<int64_t>(rank, length(rank))) expected.push_back(x);
      expected_counts.push_back(length(rank));
    }
    EXPECT_EQ(all, expected) << "root " << root;
    EXPECT_EQ(counts, expected_counts) << "root " << root;
    EXPECT_TRUE(comm.gatherv(std::span<const float>(), root).empty());
  }
}

// From rank r to rank q go (r + 2 q) % 4 * factor elements that tell who sent them to whom; some
// pairs have none.
template <class T>
void alltoallv_type(Communicator& comm, int64_t factor) {
  const auto length = [&](int from, int to) { return (from + 2 * to) % 4 * factor; };
  std::vector<T> out, expected;
  std::vector<int64_t> sends, receives;
  for (int other = 0; other < comm.size(); ++other) {
    sends.push_back(length(comm.rank(), other));
    receives.push_back(length(other, comm.rank()));
    for (const T x : values<T>(comm.rank() * 4 + other, sends.back())) out.push_back(x);
    for (const T x : values<T>(other * 4 + comm.rank(), receives.back())) expected.push_back(x);
  }
  std::vector<T> in(expected.size());
  const int64_t before = comm.bytes_moved();
  comm.alltoallv(std::span<const T>(out), sends, std::span<T>(in), receives);
  EXPECT_EQ(in, expected) << "factor " << factor;
  const int64_t kept = sends[static_cast<std::size_t>(comm.rank())];
  EXPECT_EQ(comm.bytes_moved() - before,
            (static_cast<int64_t>(out.size()) - kept) * static_cast<int64_t>(sizeof(T)));
}

void check_alltoallv(Communicator& comm) {
  for (const int64_t factor : {0, 1, 20011}) {
    alltoallv_type<float>(comm, factor);
    alltoallv_type<int64_t>(comm, factor);
  }
}

// Rank r brings (r * 7 + 3) % 5 elements, or all of them are one rank's.
template <class T>
void allgatherv_type(Communicator& comm, int64_t factor, int owner) {
  std::vector<int64_t> counts;
  std::vector<T> expected;
  int64_t begin = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    counts.push_back(owner < 0 ? (rank * 7 + 3) % 5 * factor : (rank == owner ? factor : 0));
    if (rank < comm.rank()) begin += counts.back();
    for (const T x : values<T>(rank, counts.back())) expected.push_back(x);
  }
  std::vector<T> data(expected.size());
  const auto mine = values<T>(comm.rank(), counts[static_cast<std::size_t>(comm.rank())]);
  std::copy(mine.begin(), mine.end(), data.begin() + begin);
  comm.allgatherv(std::span(data), counts);
  EXPECT_EQ(data, expected) << "factor " << factor << ", owner " << owner;
}

void check_allgatherv(Communicator& comm) {
  for (const int64_t factor : {0, 1, 20011}) {  // the last above the limit of patient messages
    for (int owner = -1; owner < comm.size(); ++owner) {
      allgatherv_type<float>(comm, factor, owner);
      allgatherv_type<double>(comm, factor, owner);
      allgatherv_type<std::byte>(comm, factor, owner);
    }
  }
}

void check_text(Communicator& comm) {
  for (int root = 0; root < comm.size(); ++root) {
    for (const auto& sent : {std::string(static_cast<std::size_t>(root + 1), 'a'), std::string()}) {
      std::string text = comm.rank() == root ? sent : "other";
      bcast_list(comm, text, root);
      EXPECT_EQ(text, sent);
    }
  }
}

// Above 64 MiB a message is cut in pieces; once, for it takes memory.
void check_long_messages(Communicator& comm) {
  if (comm.size() != 2) return;
  constexpr int64_t kLength = (int64_t{70} << 20) / 8 + 1;
  std::vector<int64_t> data(kLength);
  const auto fill = [&] { std::iota(data.begin(), data.end(), int64_t{1} << (40 * comm.rank())); };
  const auto holds = [](std::span<const int64_t> all, int64_t first, int64_t step) {
    for (const int64_t x : all) {
      if (x != first) return false;
      first += step;
    }
    return true;
  };
  const int64_t zero = 1, one = int64_t{1} << 40;
  fill();
  comm.bcast(std::span(data), 1);
  EXPECT_TRUE(holds(data, one, 1));
  fill();
  comm.reduce(std::span(data), ReduceOp::kSum, 0);
  EXPECT_TRUE(comm.rank() != 0 || holds(data, zero + one, 2));
  fill();
  const auto all = comm.gatherv(std::span<const int64_t>(data), 0);
  if (comm.rank() != 0) return;
  EXPECT_EQ(static_cast<int64_t>(all.size()), 2 * kLength);
  EXPECT_TRUE(holds(std::span(all).first(data.size()), zero, 1));
  EXPECT_TRUE(holds(std::span(all).last(data.size()), one, 1));
}

void check_bytes_moved(Communicator& comm) {
  const int64_t peers = comm.size() - 1;
  const auto moved = [&](auto collective) {
    const int64_t before = comm.bytes_moved();
    collective();
    return comm.bytes_moved() - before;
  };
  std::vector<double> data(5);
  std::vector<float> mine(static_cast<std::size_t>(comm.rank()));
  const int last = comm.size() - 1;
  const bool is_last = comm.rank() == last;
  EXPECT_EQ(moved([&] { comm.bcast(std::span(data), last); }), is_last ? 40 * peers : 0);
  EXPECT_EQ(moved([&] { comm.reduce(std::span(data), ReduceOp::kMax, last); }),
            is_last ? 40 * peers : 0);
  // Rank r sends 4 r bytes; the root's own do not move.
  EXPECT_EQ(moved([&] { comm.gatherv(std::span<const float>(mine), last); }),
            is_last ? 4 * (last - 1) * last / 2 : 0);
  // Rank 0 has the first of five doubles, the last rank the others.
  std::vector<int64_t> counts(static_cast<std::size_t>(comm.size()), 0);
  counts.front() = 1;
  counts.back() += 4;
  EXPECT_EQ(moved([&] { comm.allgatherv(std::span(data), counts); }),
            8 * peers * counts[static_cast<std::size_t>(comm.rank())]);
  EXPECT_EQ(moved([&] { comm.barrier(); }), 0);
  const double before_s = comm.seconds();
  for (int i = 0; i < 100; ++i) comm.barrier();
  EXPECT_TRUE(comm.size() == 1 || comm.seconds() > before_s);
}

std::exception_ptr failure_of(int rank) {
  switch (rank % 3) {
    case 0: return std::make_exception_ptr(InvalidArgument("bad 0", "there"));
    case 1: return std::make_exception_ptr(std::runtime_error("broken 1"));
    default: return std::make_exception_ptr(AgreedError("stopped 2", ExitStatus::kStopped));
  }
}

// Every set of failing ranks: all hear of the lowest, and are in step afterwards.
void check_agree(Communicator& comm) {
  const char* texts[] = {"bad 0 (there)", "broken 1", "stopped 2", "bad 0 (there)"};
  const ExitStatus statuses[] = {ExitStatus::kBadInput, ExitStatus::kFailed, ExitStatus::kStopped,
                                 ExitStatus::kBadInput};
  for (unsigned failing = 0; failing < 1U << comm.size(); ++failing) {
    std::string heard;
    auto status = ExitStatus::kDone;
    try {
      agree(comm, failing >> comm.rank() & 1U ? failure_of(comm.rank()) : nullptr);
    } catch (const AgreedError& error) {
      heard = error.what();
      status = error.exit_status();
    }
    int lowest = 0;
    while (failing != 0 && !(failing >> lowest & 1U)) ++lowest;
    EXPECT_EQ(heard.substr(0, heard.find(" [")), failing == 0 ? "" : texts[lowest]) << failing;
    EXPECT_EQ(heard.find(" [rank " + std::to_string(lowest) + " on ") != std::string::npos,
              failing != 0 && lowest > 0);
    EXPECT_EQ(status, failing == 0 ? ExitStatus::kDone : statuses[lowest]) << failing;
    EXPECT_EQ(comm.allreduce_one(int64_t{1}, ReduceOp::kSum), comm.size());
  }
}

void check_agree_on(Communicator& comm) {
  int done = 0;
  agree_on(comm, [&] { ++done; });
  EXPECT_EQ(done, 1);
  const int last = comm.size() - 1;
  std::string heard;
  try {
    agree_on(comm, [&] {
      if (comm.rank() == last) throw std::bad_alloc();
    });
  } catch (const AgreedError& error) {
    heard = error.what();
  }
  EXPECT_TRUE(heard.starts_with("out of memory in the phase ")) << heard;
}

// From every rank to every other, in the order sent, whoever the receiver names first.
void check_send(Communicator& comm) {
  const int64_t before = comm.bytes_moved();
  for (int to = 0; to < comm.size(); ++to) {
    if (to == comm.rank()) continue;
    for (const int64_t length : {1, 100}) {
      comm.send(std::span<const float>(values<float>(comm.rank(), length)), to);
    }
  }
  EXPECT_EQ(comm.bytes_moved() - before, 4 * 101 * (comm.size() - 1));
  for (int from = comm.size() - 1; from >= 0; --from) {
    if (from == comm.rank()) continue;
    for (const int64_t length : {1, 100}) {
      std::vector<float> data(static_cast<std::size_t>(length));
      EXPECT_EQ(comm.recv(std::span(data), from), from);
      EXPECT_EQ(data, values<float>(from, length));
    }
  }
  comm.barrier();
  std::vector<int> heard(static_cast<std::size_t>(comm.size()));
  const int64_t mine = comm.rank();
  if (comm.rank() > 0) comm.send(std::span(&mine, 1), 0);
  for (int i = 1; comm.rank() == 0 && i < comm.size(); ++i) {
    int64_t said = -1;
    const int from = comm.recv(std::span(&said, 1), Communicator::kAnyRank);
    EXPECT_EQ(said, from);
    ++heard[static_cast<std::size_t>(from)];
  }
  for (int rank = 1; comm.rank() == 0 && rank < comm.size(); ++rank) {
    EXPECT_EQ(heard[static_cast<std::size_t>(rank)], 1);
  }
}

// The root sees every element of the sum once, in order, and what it makes of it goes to all, whose
// rows are their own from then on; the next sum in that memory is as good.
template <class T>
void exchange_all(Communicator& comm, std::span<T> data, double unit, std::span<float> result) {
  const int64_t length = std::ssize(data);
  for (int round = 0; round < 3; ++round) {
    std::ranges::copy(values<T>(comm.rank(), length), data.begin());
    std::ranges::fill(result, -1.0F);
    int64_t next = 0;
    const int64_t before = comm.bytes_moved();
    const auto step = [&](int64_t begin, std::span<float> sum) {
      EXPECT_EQ(std::pair(comm.rank(), begin), std::pair(0, next));
      next += std::ssize(sum);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const std::size_t at = static_cast<std::size_t>(begin) + i;
        result[at] = sum[i] + static_cast<float>(at % 7) + 100.0F * static_cast<float>(round);
        sum[i] = -2;
      }
    };
    const ExchangeTimes times = comm.exchange(data, unit, result, step);
    EXPECT_EQ(next, comm.rank() == 0 ? length : 0);
    auto expected = reduced<float>(comm.size(), length, ReduceOp::kSum);
    const float factor = std::is_same_v<T, float> ? 1 : static_cast<float>(unit);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] =
          expected[i] * factor + static_cast<float>(i % 7) + 100.0F * static_cast<float>(round);
    }
    EXPECT_TRUE(std::ranges::equal(result, expected)) << "length " << length << ", round " << round;
    const auto both = static_cast<int64_t>(sizeof(T) + sizeof(float)) * length;
    EXPECT_EQ(comm.bytes_moved() - before, comm.rank() == 0 ? both * (comm.size() - 1) : 0);
    EXPECT_GE(std::min({times.reduce_s, times.step_s, times.broadcast_s}), 0);
  }
}

void check_exchange(Communicator& comm) {
  for (const int64_t length : {0, 1, 17, 8193, 100003}) {
    std::vector<int64_t> integers(static_cast<std::size_t>(length));
    std::vector<float> floats(integers.size()), result(integers.size());
    exchange_all(comm, std::span(integers), 0.25, result);
    exchange_all(comm, std::span(floats), 0.25, result);
  }
}

template <class T>
std::span<T> values_in(const std::shared_ptr<std::byte>& row, int64_t length) {
  return {reinterpret_cast<T*>(row.get()), static_cast<std::size_t>(length)};
}

// Zeros, whose sums are those of any memory, wherever an exchange leaves its result.
template <class T>
void sum_rows(Communicator& comm) {
  for (const int64_t length : {0, 1, 63, 8192, 8193, 40000, 100003}) {
    const auto memory = comm.allocate_row(element_type_of<T>(), length);
    const auto other = comm.allocate_row(element_type_of<T>(), length);
    const auto floats = comm.allocate_row(ElementType::kFloat, length);
    const auto data = values_in<T>(memory, length);
    const auto result = values_in<float>(floats, length);
    std::vector<float> elsewhere(result.size());
    EXPECT_EQ(std::ranges::count(data, T{0}), length);
    exchange_all(comm, data, 0.5, result);
    for (int round = 0; round < 2; ++round) {
      std::ranges::copy(values<T>(comm.rank(), length), data.begin());
      comm.reduce(data, ReduceOp::kSum, 0);
      EXPECT_TRUE(comm.rank() > 0 ||
                  std::ranges::equal(data, reduced<T>(comm.size(), length, ReduceOp::kSum)));
    }
    std::ranges::copy(values<T>(comm.rank(), length), data.begin());
    comm.reduce(data, ReduceOp::kMax, comm.size() - 1);
    EXPECT_TRUE(comm.rank() < comm.size() - 1 ||
                std::ranges::equal(data, reduced<T>(comm.size(), length, ReduceOp::kMax)));
    exchange_all(comm, data, 0.5, elsewhere);
    exchange_all(comm, data, 0.5, result);
    exchange_all(comm, values_in<T>(other, length), 0.5, result);
  }
}

void check_allocate_row(Communicator& comm) {
  sum_rows<int64_t>(comm);
  sum_rows<float>(comm);
}

// As often as it takes; what is thrown comes through, and the ranks go on.
void check_wait_until(Communicator& comm) {
  const double before_s = comm.seconds();
  int polls = 0;
  comm.wait_until([&] { return ++polls == 3000 + comm.rank(); });
  EXPECT_EQ(polls, 3000 + comm.rank());
  EXPECT_GT(comm.seconds(), before_s);
  const auto fail = []() -> bool { throw std::runtime_error("lost"); };
  EXPECT_THROW(comm.wait_until(fail), std::runtime_error);
  EXPECT_EQ(comm.allreduce_one(int64_t{1}, ReduceOp::kSum), comm.size());
}

}  // namespace

const std::vector<CommunicatorCheck>& communicator_checks() {
  static const std::vector<CommunicatorCheck> checks{
      {"Bcast", check_bcast},
      {"Reduce", check_reduce},
      {"Allreduce", check_allreduce},
      {"Gatherv", check_gatherv},
      {"Allgatherv", check_allgatherv},
      {"Alltoallv", check_alltoallv},
      {"BcastList", check_text},
      {"LongMessages", check_long_messages},
      {"BytesMoved", check_bytes_moved},
      {"Split", check_split},
      {"AllocateShared", check_allocate_shared},
      {"Agree", check_agree},
      {"AgreeOn", check_agree_on},
      {"Send", check_send},
      {"Exchange", check_exchange},
      {"AllocateRow", check_allocate_row},
      {"WaitUntil", check_wait_until},
      {"WorkQueue", check_work_queue},
  };
  return checks;
}

}  // namespace hanse
