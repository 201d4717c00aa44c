// Inner products of rows that lie on different ranks, without any rank seeing another's whole row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

// The parts of a row whose updates are weighed apart: the tensors of one layer, "fc1.weight" and
// "fc1.bias", together; or all of the row.
std::vector<RowPart> row_parts(const ParameterLayout& layout, bool layers);

// One of K rows: `position` in [0, K), `values` [P] on the rank that made it.
struct OwnedRow {
  int64_t position = 0;
  std::span<const float> values;
};

// The Gram matrices of the same parts of K rows. Each part is cut into blocks whose lengths depend
// on its size alone; whole blocks of all rows go to ranks by all-to-all, a piece at a time; one
// rank computes a block's products in float64, and rank 0 adds the blocks in their order. The
// result has the same bits for any number of ranks and whoever owns which row. (Splitting a
// product of long rows by ranks would change most of its entries.) With two ranks or more, no rank
// receives all of another's row, unless it has a single value.
//
// Cost: K^2 P / ranks multiplications and K P / ranks values sent a rank. Memory a rank: pieces of
// kPiece values of all K rows, and the blocks' K x K results.
class GramExchange {
 public:
  static constexpr int64_t kPiece = 4096;      // values of a row that travel at once
  static constexpr int64_t kMostBlocks = 128;  // of a part

  // Into how many blocks such parts are cut. REQUIRES: none is empty.
  static int64_t count_blocks(std::span<const RowPart> parts);

  // REQUIRES: parts of one row, not empty; the same on all ranks.
  GramExchange(Communicator& comm, std::vector<RowPart> parts);

  // Collective. On rank 0 [parts, K, K], row-major and symmetric; empty elsewhere. Every position
  // in [0, k) must be owned by exactly one rank. Values that are not finite give such products.
  std::vector<double> gram(std::span<const OwnedRow> rows, int64_t k);

 private:
  struct Block {
    int64_t begin;
    int64_t end;
    std::size_t part;
  };
  void learn_owners(std::span<const OwnedRow> rows, int64_t k);
  RowPart piece_of(int64_t block, int64_t piece) const;
  void exchange(std::span<const OwnedRow> rows, int64_t first_block, int64_t piece);
  std::vector<const float*> locate(std::span<const OwnedRow> rows, RowPart piece) const;
  std::vector<double> sum_blocks(std::vector<double> mine, int64_t k);

  Communicator& comm_;
  std::vector<Block> blocks_;
  std::size_t parts_;
  int64_t pieces_ = 0;              // of the longest block
  std::vector<int64_t> positions_;  // of all rows, rank after rank
  std::vector<int64_t> rows_of_;    // [ranks]
  std::vector<float> out_, in_;
};

}  // namespace hanse
