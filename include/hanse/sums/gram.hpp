// Inner products of rows that lie on different ranks, without any rank seeing another's whole row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hanse/base/row_part.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

struct GramShares;

// How K rows are multiplied, wherever they lie. Each of their parts is cut into blocks whose
// lengths depend on its size alone; whole blocks of all rows go to ranks by all-to-all; one rank
// computes a block's products in float64, and each rank adds a share of the products of all blocks
// in their order. The result has the same bits for any number of ranks and any owners of the rows.
// (Splitting a product of long rows by ranks would change most of its entries.) With two ranks or
// more, no rank receives all of another's row, unless it has a single value.
class GramBlocks {
 public:
  static constexpr int64_t kLength = 4096;  // values of a block, in a part of at most kMost blocks
  static constexpr int64_t kMost = 128;     // blocks of a part

  // REQUIRES: parts of one row, not empty; the same on all ranks.
  GramBlocks(Communicator& comm, const std::vector<RowPart>& parts);

  // Block b is the (b / ranks)-th of rank b % ranks.
  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }
  RowPart at(int64_t block) const;                          // empty behind the last
  int64_t longest() const { return longest_; }              // values
  int64_t mine() const { return blocks_of(comm_.rank()); }  // blocks of this rank

  // Learns which rank has the rows of which positions. Collective. REQUIRES: exactly one rank owns
  // each position in [0, k).
  void learn_owners(std::span<const int64_t> positions, int64_t k);
  // [K] positions of one rank's rows after another's, and [ranks] their numbers.
  std::span<const int64_t> positions() const { return positions_; }
  std::span<const int64_t> rows_of() const { return rows_of_; }

  std::size_t parts() const { return parts_; }
  std::size_t part_of(int64_t block) const { return blocks_[static_cast<std::size_t>(block)].part; }
  // How many of the blocks before `end` are a rank's.
  int64_t blocks_of(int rank, int64_t end) const {
    return (end - rank + comm_.size() - 1) / comm_.size();
  }

 private:
  struct Block {
    RowPart values;
    std::size_t part;
  };

  int64_t blocks_of(int rank) const { return blocks_of(rank, size()); }

  Communicator& comm_;
  std::vector<Block> blocks_;
  std::size_t parts_;
  int64_t longest_ = 0;
  std::vector<int64_t> positions_;
  std::vector<int64_t> rows_of_;
};

// Adds the blocks' products in the blocks' order, some blocks of each rank at once: as many as
// their lower triangles take kBytes, one at least. Memory a rank: these triangles, with several
// ranks three times, and its share of the sums; rank 0 has the matrices at last.
class GramSums {
 public:
  static constexpr int64_t kBytes = int64_t{1} << 25;

  // After learn_owners(); both must outlive it.
  GramSums(Communicator& comm, const GramBlocks& blocks, int64_t bytes = kBytes);

  // Where a rank appends the lower triangle of its next block, row by row.
  std::vector<double>& products() { return products_; }
  // Each rank has appended its own of the blocks from `first` on, one a rank. Collective.
  void next(int64_t first);
  // On rank 0 [parts, K, K], row-major and symmetric; empty elsewhere. Collective.
  std::vector<double> matrices();

 private:
  std::vector<double> exchange(int64_t end) const;
  void add(int64_t end);

  Communicator& comm_;
  const GramBlocks& blocks_;
  int64_t at_once_;               // blocks of a rank
  int64_t added_ = 0;             // blocks
  std::vector<double> products_;  // of this rank's blocks behind those
  std::vector<double> sums_;      // [parts] this rank's share of the triangle
};

// Appends the lower triangle of a matrix [size, size] to `out`, row by row.
void append_lower(std::span<const double> matrix, int64_t size, std::vector<double>& out);

// One of K rows: `position` in [0, K), `values` [P] on the rank that made it.
struct OwnedRow {
  int64_t position = 0;
  std::span<const float> values;
};

// Hands pieces of K rows in the hosts' memory to the ranks that work on them: each rank gets its
// blocks of all rows.
//
// Cost: K P / ranks values sent a rank. Memory a rank: pieces of kPiece values of all K rows.
class RowExchange {
 public:
  static constexpr int64_t kPiece = GramBlocks::kLength;  // values of a row that travel at once

  // Gets a piece of this rank's block, and the piece's values in every row, by position.
  using Visit =
      std::function<void(int64_t block, RowPart piece, std::span<const float* const> rows)>;

  // REQUIRES: as GramBlocks.
  RowExchange(Communicator& comm, const std::vector<RowPart>& parts)
      : comm_(comm), blocks_(comm, parts) {}

  // Visits this rank's blocks in their order, and the pieces of each. Collective. Exactly one rank
  // must own each position in [0, k). `done` follows on all ranks behind the blocks from `first`
  // on, one a rank.
  void each(std::span<const OwnedRow> rows, int64_t k, const Visit& visit,
            const std::function<void(int64_t first)>& done = nullptr);
  const GramBlocks& blocks() const { return blocks_; }

 protected:
  Communicator& comm_;

 private:
  RowPart piece_of(int64_t block, int64_t piece) const;
  void exchange(std::span<const OwnedRow> rows, int64_t first_block, int64_t piece);
  std::vector<const float*> locate(std::span<const OwnedRow> rows, RowPart piece) const;

  GramBlocks blocks_;
  std::vector<float> out_, in_;
};

// The Gram matrices of the parts of K rows in the hosts' memory: K^2 P / ranks multiplications a
// rank, and memory for its blocks' K x K results beside the exchange's.
class GramExchange final : public RowExchange {
 public:
  using RowExchange::RowExchange;
  // Collective, as each(). GramSums::matrices() of all products. Values that are not finite give
  // products that are not.
  std::vector<double> gram(std::span<const OwnedRow> rows, int64_t k);
};

// What GramExchange::gram sends and keeps for `k` rows that lie evenly on the ranks.
struct GramTraffic {
  double bytes = 0;         // sent by all ranks
  double messages = 0;      // from one rank to another
  double operations = 0;    // collective ones
  double kept_bytes = 0;    // by a rank, beside the rows
  double matrix_bytes = 0;  // by rank 0, when all is added
};
GramTraffic gram_traffic(std::span<const RowPart> parts, double k, int64_t ranks);
// The same of RowExchange::each alone.
GramTraffic row_traffic(std::span<const RowPart> parts, double k, int64_t ranks);
// How many blocks the parts are cut into.
int64_t block_count(std::span<const RowPart> parts);

}  // namespace hanse
