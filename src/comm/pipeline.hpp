// Long messages along a tree of ranks, chunk by chunk: a rank passes a chunk on while the next one
// comes. Private to comm/.
//
// Both ways are advanced by whoever waits for them, and neither blocks, so that one can run beside
// the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpi.h>

#include "tree.hpp"

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
  int length(int64_t i) const;
};

// The chunks that may be on their way on one link, in one direction.
inline constexpr int64_t kWindow = 16;

// From the root to all ranks.
class Downward {
 public:
  Downward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks);

  // The root's first `ready` chunks may go.
  void release(int64_t ready) { ready_ = ready; }
  // Moves what can move; did anything?
  bool advance();
  // Has this rank all chunks, and have its children those it sent?
  bool done();

 private:
  void receive();

  MPI_Comm comm_;
  TreePlace place_;
  Chunks chunks_;
  int64_t posted_ = 0;  // receives
  int64_t ready_ = 0;   // chunks that are here
  int64_t sent_ = 0;
  std::vector<MPI_Request> receives_;  // [kWindow]
  std::vector<MPI_Request> sends_;     // [kWindow, children]
};

// From all ranks to the root, combined on the way: a rank's own, then its children's in their
// order, so that the same tree gives the same bits. What is left in the chunks of other ranks than
// the root is of no use.
class Upward {
 public:
  // `scratch` is grown to kWindow chunks a child, and is in use until done().
  Upward(MPI_Comm comm, const TreePlace& place, const Chunks& chunks, MPI_Op op,
         std::vector<std::byte>& scratch);

  bool advance();
  bool done();
  // Chunks that hold the result of this rank's part of the tree.
  int64_t combined() const { return combined_; }

 private:
  void receive();
  bool combine_next();
  std::byte* slot(int64_t chunk, std::size_t child);

  MPI_Comm comm_;
  TreePlace place_;
  Chunks chunks_;
  MPI_Op op_;
  std::vector<std::byte>& scratch_;
  int64_t posted_ = 0;
  int64_t combined_ = 0;
  int64_t sent_ = 0;
  std::vector<MPI_Request> receives_;  // [kWindow, children]
  std::vector<MPI_Request> sends_;     // [kWindow]
};

}  // namespace hanse
