// Collective operations over the ranks of a run, named as MPI names them.
//
// Two implementations: over MPI (mpi_environment.hpp), and one rank without mpirun
// (make_single_communicator); tests have a third, over the threads of one process. Every method is
// collective unless it says otherwise: all ranks call it in the same order with matching arguments.
// A failure throws CommError. Counts are int64_t; one place cuts messages below 2^31 elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hanse/comm/element.hpp"

namespace hanse {

// What rank 0 does with a part of an exchange's sum, from element `begin` on; it may overwrite it.
using ExchangeStep = std::function<void(int64_t begin, std::span<float> sum)>;

// Seconds that rank 0 spends in exchange().
struct ExchangeTimes {
  double reduce_s = 0;     // until the whole sum has arrived, less the steps
  double step_s = 0;       // in the steps
  double broadcast_s = 0;  // after that
};

class Communicator {
 public:
  // Long messages travel in pieces of so many bytes: a rank passes one on while the next comes.
  // Over TCP, MPI sends less than 64 KiB at once; a longer piece waits for the receiver's answer,
  // which a link busy in both directions delays (1 Gbit/s, 256 KiB: 240 ms for 180).
  static constexpr int64_t kPieceBytes = int64_t{48} << 10;

  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Copies the root's data to all ranks.
  template <class T, std::size_t N>
  void bcast(std::span<T, N> data, int root) {
    if (size() > 1) bcast_impl({data.data(), std::ssize(data), element_type_of<T>()}, root);
  }

  // Combines `data` element by element over the ranks into the root's; the others' contents are
  // undefined afterwards. The order of summation is not defined: only sums that do not depend on it
  // (integers; one non-zero term) give the same bits on every number of ranks.
  template <class T, std::size_t N>
  void reduce(std::span<T, N> data, ReduceOp op, int root) {
    if (size() > 1) reduce_impl({data.data(), std::ssize(data), element_type_of<T>()}, op, root);
  }
  template <class T, std::size_t N>
  void allreduce(std::span<T, N> data, ReduceOp op) {
    reduce(data, op, 0);
    bcast(data, 0);
  }
  // Sums `data` (integers: times `unit`) over the ranks to rank 0 as reduce() does. There it calls
  // step() for one part of the sum after the other, and copies what step() writes to `result` to
  // all ranks as bcast() does, while the next part comes. `data` is undefined afterwards. REQUIRES:
  // both have as many elements; T is int64_t or float.
  template <class T>
  ExchangeTimes exchange(std::span<T> data, double unit, std::span<float> result,
                         const ExchangeStep& step) {
    static_assert(std::is_same_v<T, int64_t> || std::is_same_v<T, float>);
    return exchange_impl({data.data(), std::ssize(data), element_type_of<T>()}, unit, result, step);
  }
  template <class T>
  T allreduce_one(T value, ReduceOp op) {
    allreduce(std::span<T>(&value, 1), op);
    return value;
  }

  // Returns the elements of all ranks, in rank order, on the root; empty elsewhere. `counts`, when
  // given, gets each rank's number of elements on the root.
  template <class T>
  std::vector<T> gatherv(std::span<const T> data, int root,
                         std::vector<int64_t>* counts = nullptr) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<int64_t> bytes_of;
    const auto raw = gatherv_impl(std::as_bytes(data), root, bytes_of);
    std::vector<T> all(raw.size() / sizeof(T));
    if (!raw.empty()) std::copy(raw.begin(), raw.end(), reinterpret_cast<std::byte*>(all.data()));
    for (int64_t& bytes : bytes_of) bytes /= static_cast<int64_t>(sizeof(T));
    if (counts) *counts = std::move(bytes_of);
    return all;
  }

  // Brings every rank's elements to all ranks: `data` holds them in rank order, `counts[r]` of rank
  // r, and on entry only this rank's, in their place. REQUIRES: the same counts on every rank.
  // Cost: each rank receives what the others have.
  template <class T, std::size_t N>
  void allgatherv(std::span<T, N> data, std::span<const int64_t> counts) {
    if (size() > 1) allgatherv_impl({data.data(), std::ssize(data), element_type_of<T>()}, counts);
  }

  // Sends elements from every rank to every rank: `out` holds those for rank 0, then for rank 1,
  // ..., `sends[r]` of them for rank r; `in` gets those of rank 0, then of rank 1, ...,
  // `receives[r]` of rank r. REQUIRES: a sender and its receiver agree on the number. Cost: a
  // message to each other rank, all under way at once.
  template <class T>
  void alltoallv(std::span<const T> out, std::span<const int64_t> sends, std::span<T> in,
                 std::span<const int64_t> receives) {
    static_assert(std::is_trivially_copyable_v<T>);
    alltoallv_impl(std::as_bytes(out), sends, std::as_writable_bytes(in), receives, sizeof(T));
  }

  virtual void barrier() = 0;

  // Sends from one rank to another; not collective. Messages between two ranks arrive in the order
  // in which they were sent. send may wait for its receiver.
  template <class T>
  void send(std::span<const T> data, int to) {
    static_assert(std::is_trivially_copyable_v<T>);
    send_impl(std::as_bytes(data), to);
  }
  // Returns the sender. `from` may be kAnyRank. REQUIRES: the message has the length of `data`.
  static constexpr int kAnyRank = -1;
  template <class T>
  int recv(std::span<T> data, int from) {
    static_assert(std::is_trivially_copyable_v<T>);
    return recv_impl(std::as_writable_bytes(data), from);
  }

  // A communicator, in rank order, of the ranks that give this colour >= 0; where all ranks give
  // kByHost, of the ranks on this rank's host.
  virtual std::unique_ptr<Communicator> split(int64_t colour) = 0;

  // Zeroed memory that all ranks of this communicator see and that lives as long as any rank holds
  // it. It has no name in a file system: a killed run leaves nothing behind.
  // REQUIRES: all ranks are on one host (kByHost). Throws IoError when there is no room.
  virtual std::shared_ptr<std::byte> allocate_shared(int64_t bytes) = 0;

  // A row of zeros of this rank, on a cache line. Ranks of one host that reduce() whole rows, or
  // exchange() them with another row as the result, need no messages, if the system lets them share
  // so much. Collective, as many elements on every rank.
  virtual std::shared_ptr<std::byte> allocate_row(ElementType type, int64_t count);

  // Seconds that a rank waits in one operation before it looks for the missing rank, names it with
  // the phase, says `way_on` ("hanse resume RUN goes on after round 20"), and ends all; 0: forever.
  // Not collective. Over MPI only.
  virtual void set_timeout(double /*seconds*/, const std::string& /*way_on*/ = "") {}
  // What this rank does from now on, for that message. `phase` must be a literal; cheap.
  virtual void enter_phase(const char* /*phase*/, int64_t /*round*/) {}

  // Polls until done(), as a rank waits in an operation, while another library works over the same
  // ranks. Its time counts; the timeout holds, even if done() itself does not return. Not
  // collective.
  virtual void wait_until(const std::function<bool()>& done);

  // This rank's part of the payload that ranks sent each other so far: added over the ranks, every
  // byte counts once, whatever the tree it travels along. The root counts B (size - 1) for a
  // broadcast or a reduction of B bytes, and what it receives of a gather; a sender counts
  // B (size - 1) for its B bytes of an all-gather, and what it sends to other ranks in an
  // all-to-all or by send. Integers that are packed on the way count whole. Not collective.
  int64_t bytes_moved() const { return bytes_moved_; }
  // Seconds this rank spent in collectives so far.
  const double& seconds() const { return seconds_; }

 protected:
  struct Buffer {
    void* data;
    int64_t count;
    ElementType type;
    int64_t bytes() const { return count * element_bytes(type); }
  };

  // Reduces, steps, then broadcasts, unless overridden.
  virtual ExchangeTimes exchange_impl(Buffer data, double unit, std::span<float> result,
                                      const ExchangeStep& step);

  int64_t bytes_moved_ = 0;
  double seconds_ = 0;

 private:
  virtual void bcast_impl(Buffer buffer, int root) = 0;
  virtual void reduce_impl(Buffer buffer, ReduceOp op, int root) = 0;
  virtual std::vector<std::byte> gatherv_impl(std::span<const std::byte> data, int root,
                                              std::vector<int64_t>& bytes_of) = 0;
  virtual void allgatherv_impl(Buffer buffer, std::span<const int64_t> counts) = 0;
  // Counts are numbers of elements of `width` bytes.
  virtual void alltoallv_impl(std::span<const std::byte> out, std::span<const int64_t> sends,
                              std::span<std::byte> in, std::span<const int64_t> receives,
                              std::size_t width) = 0;
  virtual void send_impl(std::span<const std::byte> data, int to) = 0;
  virtual int recv_impl(std::span<std::byte> data, int from) = 0;
};

// That of a program that runs alone: one rank, without MPI. Nothing is sent, and nobody waits.
std::unique_ptr<Communicator> make_single_communicator();

}  // namespace hanse
