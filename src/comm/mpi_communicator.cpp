#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include <mpi.h>

#include "hanse/base/error.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/common_memory.hpp"
#include "hanse/comm/element.hpp"
#include "hanse/comm/mpi_environment.hpp"
#include "host_rows.hpp"
#include "mpi_support.hpp"
#include "pipeline.hpp"
#include "watchdog.hpp"

namespace hanse {

namespace {

constexpr int64_t kChunkBytes = int64_t{64} << 20;  // bytes of one MPI message; far below 2^31
// Longer broadcasts and reductions go in chunks along a tree of ranks; longer exchanges start when
// all ranks are there, and do not sleep, because each of their many small steps would wait for a
// rank that sleeps between polls.
constexpr int64_t kLongBytes = int64_t{64} << 10;
// This limit holds for ranks that share hosts: MPI's own trees know nothing of hosts, and send a
// message over the link of a host once a rank.
constexpr int64_t kHostBytes = int64_t{4} << 10;
constexpr double kPollPatiently_s = 1e-3;  // before the first sleep, when every rank has a core
constexpr double kPollBriefly_s = 20e-6;   // when ranks share cores

class MpiCommunicator final : public Communicator {
 public:
  // Owns `comm`.
  MpiCommunicator(MPI_Comm comm, std::shared_ptr<Watchdog> watchdog)
      : comm_(comm), watchdog_(std::move(watchdog)) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank", comm_);
    check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size", comm_);
    MPI_Comm host = split_ranks_by_host(comm_);
    // One patience for all ranks: a rank that sleeps delays those that wait for it.
    int shared = host_share(host).shares_processors() ? 1 : 0;
    hosts_ = hosts_of_ranks(comm_, host);
    MPI_Comm_free(&host);
    const auto hosts = std::set<int>(hosts_.begin(), hosts_.end()).size();
    one_host_ = hosts == 1;
    if (hosts > 1 && hosts < hosts_.size()) long_bytes_ = kHostBytes;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &shared, 1, MPI_INT, MPI_MAX, comm_), "MPI_Allreduce",
              comm_);
    patience_s_ = shared ? kPollBriefly_s : kPollPatiently_s;
  }

  ~MpiCommunicator() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void set_timeout(double seconds, const std::string& way_on) override {
    watchdog_->set_timeout(seconds, way_on);
  }
  void enter_phase(const char* phase, int64_t round) override {
    watchdog_->enter_phase(phase, round);
  }

  void barrier() override {
    if (size_ == 1) return;
    const Operation operation(*this, "barrier", 0);
    meet();
  }

  void wait_until(const std::function<bool()>& done) override {
    const Operation operation(*this, "wait", 0);
    Patience patience(patience_s_, *watchdog_);
    while (!done()) patience.pause();
  }

  std::unique_ptr<Communicator> split(int64_t colour) override {
    return std::make_unique<MpiCommunicator>(split_ranks(comm_, colour), watchdog_);
  }

  std::shared_ptr<std::byte> allocate_shared(int64_t bytes) override {
    return share_memory(*this, bytes);
  }

  // A limit of a file's length holds for shared memory, too; then messages are sent. An exchange is
  // as long as its sum, of integers; the row of its result goes with it.
  std::shared_ptr<std::byte> allocate_row(ElementType type, int64_t count) override {
    const bool is_long = count * element_bytes(ElementType::kInt64) > kLongBytes;
    if (size_ > 1 && one_host_ && is_long && is_exchanged(type)) {
      try {
        const auto rows = std::make_shared<HostRows>(*this, type, count);
        rows_.push_back(rows);
        return {rows, rows->mine()};
      } catch (const AgreedError&) {
      }
    }
    return Communicator::allocate_row(type, count);
  }

 private:
  // One collective operation: its time counts, and the watchdog looks at it.
  struct Operation {
    Operation(MpiCommunicator& comm, const char* name, int64_t bytes)
        : scope(name, -1, bytes, &comm.seconds_), waiting(*comm.watchdog_) {}
    Scope scope;
    Watchdog::Waiting waiting;
  };

  // Waits for the request that start(request) begins. Returns the sender of a received message.
  template <class Start>
  int complete(const char* operation, Start start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(start(&request), operation, comm_);
    Patience patience(patience_s_, *watchdog_);
    MPI_Status status;
    for (int done = 0;;) {
      check_mpi(MPI_Test(&request, &done, &status), operation, comm_);
      if (done) return status.MPI_SOURCE;
      patience.pause();
    }
  }

  void meet() {
    complete("MPI_Ibarrier", [&](MPI_Request* request) { return MPI_Ibarrier(comm_, request); });
  }

  // Calls advance() until done(). While chunks come, no rank sleeps.
  template <class Advance, class Done>
  void run(Advance advance, Done done) {
    Patience patience(kPollPatiently_s, *watchdog_);
    while (!done()) {
      if (advance()) {
        patience.renew();
      } else {
        patience.pause();
      }
    }
  }
  void run(Pipeline pipeline) {
    run([&] { return pipeline.advance(); }, [&] { return pipeline.done(); });
  }

  // REQUIRES: `elements` of the buffer's type fit an MPI message.
  Chunks chunks_of(const Buffer& buffer, int64_t elements) const {
    return {static_cast<std::byte*>(buffer.data), buffer.count, mpi_type(buffer.type),
            element_bytes(buffer.type), elements};
  }
  // Cuts as HostRows does.
  Chunks chunks_of(const Buffer& buffer) const {
    return chunks_of(buffer, kPieceBytes / element_bytes(buffer.type));
  }
  TreePlace place(int root, int64_t chunks) const {
    return place_in_tree(rank_, root, hosts_, chunks);
  }

  // Calls step(data, length) for pieces that one message can hold.
  template <class Byte, class Step>
  static void in_chunks(Byte* data, int64_t bytes, Step step) {
    for (int64_t done = 0; done < bytes; done += kChunkBytes) {
      step(data + done, static_cast<int>(std::min(kChunkBytes, bytes - done)));
    }
  }

  // The rows that sum `buffer` without messages; null: it is none of them.
  std::shared_ptr<HostRows> rows_of(const Buffer& buffer) {
    return find_rows(rows_, buffer.data, buffer.type, buffer.count);
  }

  void bcast_impl(Buffer buffer, int root) override;
  void reduce_impl(Buffer buffer, ReduceOp op, int root) override;
  ExchangeTimes exchange_impl(Buffer data, double unit, std::span<float> result,
                              const ExchangeStep& step) override;
  std::vector<std::byte> gatherv_impl(std::span<const std::byte> data, int root,
                                      std::vector<int64_t>& bytes_of) override;
  void allgatherv_impl(Buffer buffer, std::span<const int64_t> counts) override;
  void alltoallv_impl(std::span<const std::byte> out, std::span<const int64_t> sends,
                      std::span<std::byte> in, std::span<const int64_t> receives,
                      std::size_t width) override;
  void send_impl(std::span<const std::byte> data, int to) override {
    const Operation operation(*this, "send", std::ssize(data));
    send_bytes(data, to, kPointTag);
    bytes_moved_ += std::ssize(data);
  }
  int recv_impl(std::span<std::byte> data, int from) override {
    const Operation operation(*this, "recv", std::ssize(data));
    return receive_bytes(data, from == kAnyRank ? MPI_ANY_SOURCE : from, kPointTag);
  }

  // Returns the sender.
  int receive_bytes(std::span<std::byte> data, int from, int tag) {
    in_chunks(data.data(), std::ssize(data), [&](std::byte* piece, int n) {
      from = complete("MPI_Irecv", [&](MPI_Request* request) {
        return MPI_Irecv(piece, n, MPI_BYTE, from, tag, comm_, request);
      });
    });
    return from;
  }

  void send_bytes(std::span<const std::byte> data, int to, int tag) {
    in_chunks(data.data(), std::ssize(data), [&](const std::byte* piece, int n) {
      complete("MPI_Isend", [&](MPI_Request* request) {
        return MPI_Isend(piece, n, MPI_BYTE, to, tag, comm_, request);
      });
    });
  }

  MPI_Comm comm_;
  std::shared_ptr<Watchdog> watchdog_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<int> hosts_;           // [size] the lowest rank of each rank's host
  int64_t long_bytes_ = kLongBytes;  // of broadcasts and reductions
  bool one_host_ = false;
  double patience_s_ = kPollBriefly_s;
  std::vector<std::weak_ptr<HostRows>> rows_;
  std::vector<std::byte> scratch_;  // of reductions
};

void MpiCommunicator::bcast_impl(Buffer buffer, int root) {
  const Operation operation(*this, "bcast", buffer.bytes());
  if (rank_ == root) bytes_moved_ += buffer.bytes() * (size_ - 1);
  if (buffer.bytes() <= long_bytes_) {
    complete("MPI_Ibcast", [&](MPI_Request* request) {
      return MPI_Ibcast(buffer.data, static_cast<int>(buffer.count), mpi_type(buffer.type), root,
                        comm_, request);
    });
    return;
  }
  const Chunks chunks = chunks_of(buffer);
  Pipeline down = Pipeline::downward(comm_, place(root, chunks.size()), chunks);
  down.release(chunks.size());
  run(std::move(down));
}

void MpiCommunicator::reduce_impl(Buffer buffer, ReduceOp op, int root) {
  const Operation operation(*this, "reduce", buffer.bytes());
  if (rank_ == root) bytes_moved_ += buffer.bytes() * (size_ - 1);
  if (buffer.bytes() <= long_bytes_) {
    complete("MPI_Ireduce", [&](MPI_Request* request) {
      return MPI_Ireduce(rank_ == root ? MPI_IN_PLACE : buffer.data, buffer.data,
                         static_cast<int>(buffer.count), mpi_type(buffer.type), mpi_op(op), root,
                         comm_, request);
    });
    return;
  }
  const Chunks chunks = chunks_of(buffer);
  if (const auto rows = op == ReduceOp::kSum && root == 0 ? rows_of(buffer) : nullptr) {
    rows->start_sum();
    return run([&] { return rows->advance(); }, [&] { return rows->done(); });
  }
  run(Pipeline::upward(comm_, place(root, chunks.size()), chunks, mpi_op(op), scratch_));
}

ExchangeTimes MpiCommunicator::exchange_impl(Buffer data, double unit, std::span<float> result,
                                             const ExchangeStep& step) {
  if (data.bytes() <= long_bytes_) return Communicator::exchange_impl(data, unit, result, step);
  const int64_t result_bytes = std::ssize(result) * static_cast<int64_t>(sizeof(float));
  const Operation operation(*this, "exchange", data.bytes() + result_bytes);
  if (rank_ == 0) bytes_moved_ += (data.bytes() + result_bytes) * (size_ - 1);
  const Chunks there = chunks_of(data);
  const ExchangeStep* my_step = rank_ == 0 ? &step : nullptr;
  const auto wait = [&](auto advance, auto done) { run(advance, done); };
  const auto rows = rows_of(data);
  const auto results = rows_of({result.data(), std::ssize(result), ElementType::kFloat});
  if (rows && results) {
    rows->start_exchange(unit, *results);
    return step_between(
        *rows, *rows, there, [&](int64_t i) { return rows->taken(i); }, my_step, wait);
  }
  const TreePlace here = place(0, there.size());
  Pipeline up = Pipeline::upward(comm_, here, there, MPI_SUM, scratch_);
  Pipeline down = Pipeline::downward(
      comm_, here,
      chunks_of({result.data(), std::ssize(result), ElementType::kFloat}, there.chunk));
  std::vector<float> part(static_cast<std::size_t>(std::min(there.chunk, there.count)));
  const auto take = [&](int64_t i) {
    take_elements(data.type, there.begin(i), there.length(i), unit, part.data());
    return part.data();
  };
  return step_between(up, down, there, take, my_step, wait);
}

std::vector<std::byte> MpiCommunicator::gatherv_impl(std::span<const std::byte> data, int root,
                                                     std::vector<int64_t>& bytes_of) {
  const Operation operation(*this, "gatherv", std::ssize(data));
  const auto mine = static_cast<int64_t>(data.size());
  bytes_of.assign(rank_ == root ? static_cast<std::size_t>(size_) : 0, 0);
  complete("MPI_Igather", [&](MPI_Request* request) {
    return MPI_Igather(&mine, 1, MPI_INT64_T, bytes_of.data(), 1, MPI_INT64_T, root, comm_,
                       request);
  });
  if (rank_ != root) {
    send_bytes(data, root, kCollectiveTag);
    return {};
  }
  std::vector<std::byte> all(
      static_cast<std::size_t>(std::accumulate(bytes_of.begin(), bytes_of.end(), int64_t{0})));
  std::byte* next = all.data();
  for (int other = 0; other < size_; ++other) {
    const int64_t bytes = bytes_of[static_cast<std::size_t>(other)];
    if (other == rank_) {
      std::copy(data.begin(), data.end(), next);
    } else {
      receive_bytes({next, static_cast<std::size_t>(bytes)}, other, kCollectiveTag);
      bytes_moved_ += bytes;
    }
    next += bytes;
  }
  return all;
}

// One MPI call if its displacements fit an int; else every rank broadcasts its part.
void MpiCommunicator::allgatherv_impl(Buffer buffer, std::span<const int64_t> counts) {
  const int64_t width = element_bytes(buffer.type);
  if (buffer.count > std::numeric_limits<int>::max()) {
    auto* part = static_cast<std::byte*>(buffer.data);
    for (int rank = 0; rank < size_; ++rank) {
      const int64_t n = counts[static_cast<std::size_t>(rank)];
      bcast_impl({part, n, buffer.type}, rank);
      part += n * width;
    }
    return;
  }
  const Operation operation(*this, "allgatherv", buffer.bytes());
  const std::vector<int> lengths(counts.begin(), counts.end());
  std::vector<int> begins(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
  if (buffer.bytes() > kLongBytes) {
    meet();
    check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer.data, lengths.data(),
                             begins.data(), mpi_type(buffer.type), comm_),
              "MPI_Allgatherv", comm_);
  } else {
    complete("MPI_Iallgatherv", [&](MPI_Request* request) {
      return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer.data, lengths.data(),
                             begins.data(), mpi_type(buffer.type), comm_, request);
    });
  }
  bytes_moved_ += counts[static_cast<std::size_t>(rank_)] * width * (size_ - 1);
}

// A message from each rank to each other, cut into pieces; all are under way at once.
void MpiCommunicator::alltoallv_impl(std::span<const std::byte> out, std::span<const int64_t> sends,
                                     std::span<std::byte> in, std::span<const int64_t> receives,
                                     std::size_t width) {
  const Operation operation(*this, "alltoallv", std::ssize(out));
  if (size_ > 1) meet();  // what follows does not sleep
  std::vector<MPI_Request> requests;
  const auto bytes_of = [&](std::span<const int64_t> counts, int rank) {
    return counts[static_cast<std::size_t>(rank)] * static_cast<int64_t>(width);
  };
  // Starts the messages with the other ranks; returns where this rank's own part begins.
  const auto start = [&](auto* data, std::span<const int64_t> counts, const char* name, auto call) {
    auto* own = data;
    for (int other = 0; other < size_; ++other) {
      const int64_t bytes = bytes_of(counts, other);
      if (other == rank_) {
        own = data;
      } else {
        in_chunks(data, bytes, [&](auto* piece, int n) {
          check_mpi(
              call(piece, n, MPI_BYTE, other, kCollectiveTag, comm_, &requests.emplace_back()),
              name, comm_);
        });
      }
      data += bytes;
    }
    return own;
  };
  std::byte* own = start(in.data(), receives, "MPI_Irecv", MPI_Irecv);
  const std::byte* mine = start(out.data(), sends, "MPI_Isend", MPI_Isend);
  std::copy_n(mine, bytes_of(sends, rank_), own);
  bytes_moved_ +=
      std::accumulate(sends.begin(), sends.end(), int64_t{0}) * static_cast<int64_t>(width) -
      bytes_of(sends, rank_);
  check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall", comm_);
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator() {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup", MPI_COMM_WORLD);
  MPI_Comm_set_name(comm, "hanse ranks");  // for tools that watch
  warn_of_bound_ranks(comm);
  return std::make_unique<MpiCommunicator>(comm, std::make_shared<Watchdog>(comm));
}

}  // namespace hanse
