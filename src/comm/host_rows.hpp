// Sums of rows in memory that all ranks of one host see, and what rank 0 makes of them: without
// messages, and every rank adds. Private to comm/.
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
  // A row of `count` elements of each rank. REQUIRES: is_exchanged(type). Collective over the ranks
  // of one host. Throws AgreedError when there is no room.
  HostRows(Communicator& host, ElementType type, int64_t count);

  std::byte* mine() const { return rows_.of(rank_); }
  ElementType type() const { return type_; }
  int64_t count() const { return count_; }

  // Begins a sum over the ranks to rank 0's row, in pieces of Communicator::kPieceBytes: rank 0's
  // own, then rank 1's, ... All ranks start the same one, advance() it until it is done(), and
  // until then leave their rows alone. REQUIRES: what was started before is done.
  void start_sum();
  // The same, but each piece comes as float32, integers times `unit`, to its place in rank 0's row,
  // and `result`, rows of as many floats, is copied from rank 0's to the others' as rank 0 releases
  // it.
  void start_exchange(double unit, const HostRows& result);
  // Copies a piece that is released; otherwise, unless more became ready on rank 0, which may have
  // to do with it, adds one that nobody has taken. Did anything move? Never waits.
  bool advance();
  // Pieces from the first on that hold the sum.
  int64_t ready() const { return now_.ready; }
  // Of an exchange: a piece that is ready, until done().
  float* taken(int64_t piece) const { return reinterpret_cast<float*>(place(0, piece)); }
  // Rank 0, of an exchange: the first pieces of its result may go to the others.
  void release(int64_t pieces);
  // On rank 0 an exchange is done when the others have its result, which may change then.
  bool done();

 private:
  using Stamp = std::atomic<int64_t>;  // the number of a sum

  // Counts on from `ranks`: do all ranks have this sum's number?
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
  int64_t piece_, pieces_;  // elements of one, and how many
  RankRows rows_;
  std::shared_ptr<std::byte> stamps_;
  Stamp* arrived_;   // [ranks] the last sum that a rank has begun
  Stamp* left_;      // [ranks] the last exchange of which a rank has the result; not rank 0
  Stamp* released_;  // the last sum with a result, times kMostPieces, and its pieces released
  Stamp* summed_;    // [pieces] the last sum of which a piece is there
  std::unique_ptr<WorkQueue> queue_;
  struct UnderWay {
    int64_t number = 0;  // of the sum
    double unit = 1;
    const float* source = nullptr;  // rank 0's result; null: a sum alone
    float* result = nullptr;        // this rank's
    int64_t ready = 0;
    int64_t copied = 0;      // pieces of the result; on rank 0 released
    int arrived = 0;         // ranks that are known to have begun
    int left = 1;            // and to have the result
    bool all_taken = false;  // this rank finds no piece to add any more
  } now_;
};

// Those of a list, whose dead ones go, that have such a row here; null: there are none.
std::shared_ptr<HostRows> find_rows(std::vector<std::weak_ptr<HostRows>>& all, const void* row,
                                    ElementType type, int64_t count);

}  // namespace hanse
