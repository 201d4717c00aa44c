// Sums of rows in memory that all ranks of one host see: every rank adds, and no message is sent.
// Private to comm/.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hanse/comm/common_memory.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/comm/work_queue.hpp"

namespace hanse {

class HostRows {
 public:
  // Makes a row of `count` elements for each rank. REQUIRES: is_exchanged(type). Collective over
  // the ranks of one host. Throws AgreedError when there is no room.
  HostRows(Communicator& host, ElementType type, int64_t count);

  std::byte* mine() const { return rows_.of(rank_); }
  ElementType type() const { return type_; }
  int64_t count() const { return count_; }

  // Begins a sum over the ranks to rank 0's row, in pieces of Communicator::kPieceBytes: rank 0's
  // own, then rank 1's, ... All ranks start the same sum, advance() it until it is done(), and
  // leave their rows alone until then. REQUIRES: the sum before is done.
  void start_sum();
  // Begins such a sum as an exchange: each piece comes as float32, integers times `unit`, to its
  // place in rank 0's row, and `result`, rows of as many floats, is copied from rank 0 to the
  // others as rank 0 releases it.
  void start_exchange(double unit, const HostRows& result);
  // Copies a released piece, or adds a piece that nobody has taken; rank 0 adds none when more
  // became ready, which it may have to step. Did anything move? Never waits.
  bool advance();
  // The number of pieces, from the first on, that hold the sum.
  int64_t ready() const { return now_.ready; }
  // The sum in a ready piece of an exchange, valid until done().
  float* taken(int64_t piece) const { return reinterpret_cast<float*>(place(0, piece)); }
  // Rank 0 of an exchange lets the first `pieces` pieces of its result go to the others.
  void release(int64_t pieces);
  // An exchange is done on rank 0 when the others have its result, which may change then.
  bool done();

 private:
  using Stamp = std::atomic<int64_t>;  // the number of a sum

  // Counts on from `ranks`: have all ranks this sum's number?
  bool have_all(const Stamp* stamps, int& ranks) const;
  void look();
  void add(int64_t piece);
  bool copy();
  std::byte* place(int rank, int64_t piece) const {
    return rows_.of(rank) + piece * piece_ * element_bytes(type_);
  }
  // The elements of a piece.
  int64_t length(int64_t i) const { return std::min(piece_, count_ - i * piece_); }

  int rank_, ranks_;
  ElementType type_;
  int64_t count_;
  int64_t piece_, pieces_;  // elements of a piece, and number of pieces
  RankRows rows_;
  std::shared_ptr<std::byte> stamps_;
  Stamp* arrived_;   // [ranks] the last sum that a rank has begun
  Stamp* left_;      // [ranks] the last exchange of which a rank has the result; not rank 0
  Stamp* released_;  // the last sum with a result, times kMostPieces, and its pieces released
  Stamp* summed_;    // [pieces] the last sum that has added a piece
  std::unique_ptr<WorkQueue> queue_;
  struct UnderWay {
    int64_t number = 0;  // of the sum
    double unit = 1;
    const float* source = nullptr;  // rank 0's result; null: a sum alone
    float* result = nullptr;        // this rank's
    int64_t ready = 0;
    int64_t copied = 0;      // pieces of the result; rank 0: released ones
    int arrived = 0;         // ranks known to have begun
    int left = 1;            // ranks known to have the result
    bool all_taken = false;  // this rank finds no piece to add any more
  } now_;
};

// The rows of the list that have `row` here; drops dead entries. Null: none has.
std::shared_ptr<HostRows> find_rows(std::vector<std::weak_ptr<HostRows>>& all, const void* row,
                                    ElementType type, int64_t count);

}  // namespace hanse
