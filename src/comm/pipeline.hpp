// A long message along a tree of ranks, chunk by chunk: a rank passes a chunk on while the next one
// comes. Private to comm/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpi.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/cluster.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// A buffer in pieces of `chunk` elements; the last may be shorter.
struct Chunks {
  std::byte* data;
  int64_t count;  // elements
  MPI_Datatype type;
  int64_t width;  // bytes of an element
  int64_t chunk;  // elements; chunk * width < 2^31

  int64_t size() const { return (count + chunk - 1) / chunk; }
  std::byte* begin(int64_t i) const { return data + i * chunk * width; }
  int64_t longest_bytes() const { return std::min(chunk, count) * width; }
  int length(int64_t i) const { return static_cast<int>(std::min(chunk, count - i * chunk)); }
};

// One direction of a message. Whoever waits for it advances it, and it never blocks, so that both
// directions can run beside each other.
class Pipeline {
 public:
  // Sends from the root, chunk by chunk as it releases them, to all ranks.
  static Pipeline downward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks);
  // Sends from all ranks to the root, combined on the way: a rank's own, then its children's in
  // their order, so that the same tree gives the same bits. Chunks of ranks other than the root are
  // undefined afterwards. Sums of integers leave a host packed, each chunk in as many bytes a value
  // as its largest needs. `scratch` grows as needed, and is in use until done().
  static Pipeline upward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks, MPI_Op op,
                         std::vector<std::byte>& scratch);

  // Lets the root's first `ready` chunks go down.
  void release(int64_t ready) { released_ = ready; }
  // Makes progress without blocking; receives at most one chunk, because the root may have to
  // process it first. Did anything move?
  bool advance();
  // Has this rank all chunks, and have its receivers those it sent?
  bool done();
  // Chunks that are here, combined over this rank's part of the tree.
  int64_t ready() const { return ready_; }

 private:
  Pipeline(MPI_Comm comm, const Chunks& chunks, std::vector<int> sources, std::vector<int> targets,
           int tag);
  void receive();
  std::byte* slot(int64_t chunk, std::size_t source) const;
  void combine(int64_t chunk);
  void send(int64_t chunk);
  bool all_done(std::span<MPI_Request> requests, const char* operation,
                MPI_Status* statuses = MPI_STATUSES_IGNORE) const;

  MPI_Comm comm_;
  Chunks chunks_;
  std::vector<int> sources_;
  std::vector<int> targets_;
  int tag_;
  MPI_Op op_ = MPI_OP_NULL;       // null: chunks of the only source are copied
  bool sums_integers_ = false;    // messages are then bytes, as many a value as arrive
  bool packs_ = false;            // this rank's messages
  std::byte* scratch_ = nullptr;  // chunks to be combined, [sources, window]; packed ones, [window]
  int64_t released_;
  int64_t posted_ = 0;  // receives
  int64_t ready_ = 0;
  int64_t sent_ = 0;
  std::vector<MPI_Request> receives_;  // [window, sources]
  std::vector<MPI_Request> sends_;     // [window, targets]
  std::vector<MPI_Status> came_;       // [sources]
};

// As the sum comes up, piece by piece, take(i) hands each piece to `step`, and the result goes
// down. A null `step`: this rank does not step. wait(advance, done) calls advance() until done().
template <class Up, class Down, class Take, class Wait>
ExchangeTimes step_between(Up& up, Down& down, const Chunks& there, Take take,
                           const ExchangeStep* step, Wait wait) {
  const double start_s = monotonic_seconds();
  double all_there_s = start_s;
  ExchangeTimes times;
  int64_t stepped = 0;
  const auto advance = [&] {
    const bool came = up.advance();
    for (; step != nullptr && stepped < up.ready(); ++stepped) {
      all_there_s = monotonic_seconds();
      const Scope timer(times.step_s);
      const auto length = static_cast<std::size_t>(there.length(stepped));
      (*step)(stepped * there.chunk, {take(stepped), length});
      down.release(stepped + 1);
    }
    return down.advance() || came;
  };
  wait(advance, [&] { return up.done() && down.done(); });
  times.reduce_s = std::max(0.0, all_there_s - start_s - times.step_s);
  times.broadcast_s = monotonic_seconds() - start_s - times.reduce_s - times.step_s;
  return times;
}

}  // namespace hanse
