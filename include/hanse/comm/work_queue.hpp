// Work that ranks take piece by piece: a free rank takes the next.
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Serves one phase of work after another. Ranks that take pieces call next() until it is empty; the
// others, if any, call serve() and stay in it until all pieces are taken.
class WorkQueue {
 public:
  struct Piece {
    int64_t begin = 0;  // items [begin, end)
    int64_t end = 0;
    bool empty() const { return begin == end; }
  };

  virtual ~WorkQueue() = default;

  // Starts a phase of `items`, in pieces of `length`, which all ranks give alike. REQUIRES: length
  // >= 1; every taker has got the empty piece of the phase before, and a collective lies between.
  virtual void start(int64_t items, int64_t length) = 0;
  virtual Piece next() = 0;
  virtual void serve() = 0;
};

// A queue over a counter in the memory of one host: a piece costs one fetch-add, and nobody serves.
// Collective over the ranks of one host, of which `takers` take pieces.
std::unique_ptr<WorkQueue> make_shared_queue(Communicator& host, int64_t takers);

// A queue over messages to rank 0, which serves; all other ranks take pieces. A piece costs a
// message there and back. Rank 0's arguments of start() count.
std::unique_ptr<WorkQueue> make_served_queue(Communicator& comm);

// Messages that a phase of a served queue takes: two a piece, and two a taker that finds none.
struct QueueTraffic {
  double bytes = 0;
  double messages = 0;
};
QueueTraffic served_queue_traffic(double pieces, int64_t takers);

}  // namespace hanse
