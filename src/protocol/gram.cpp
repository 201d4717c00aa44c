#include "hanse/protocol/gram.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "hanse/base/products.hpp"

namespace hanse {

namespace {

// Rounded up.
int64_t divide(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Two blocks at least, so that no rank gets a whole row.
int64_t block_length(int64_t size) {
  const int64_t blocks = std::clamp(divide(size, GramExchange::kPiece), std::min<int64_t>(size, 2),
                                    GramExchange::kMostBlocks);
  return divide(size, blocks);
}

}  // namespace

std::vector<RowPart> row_parts(const ParameterLayout& layout, bool layers) {
  if (!layers) return {{0, layout.n_params()}};
  std::vector<RowPart> parts;
  std::string last;
  for (const ParameterSlot& slot : layout.slots()) {
    const std::string layer = slot.name.substr(0, slot.name.rfind('.'));
    if (parts.empty() || layer != last) parts.push_back({slot.offset, slot.offset});
    parts.back().end = slot.offset + slot.size;
    last = layer;
  }
  return parts;
}

int64_t GramExchange::count_blocks(std::span<const RowPart> parts) {
  int64_t blocks = 0;
  for (const RowPart& part : parts) blocks += divide(part.size(), block_length(part.size()));
  return blocks;
}

GramExchange::GramExchange(Communicator& comm, std::vector<RowPart> parts)
    : comm_(comm), parts_(parts.size()) {
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const int64_t length = block_length(parts[part].size());
    for (int64_t begin = parts[part].begin; begin < parts[part].end; begin += length) {
      blocks_.push_back({begin, std::min(begin + length, parts[part].end), part});
    }
    pieces_ = std::max(pieces_, divide(length, kPiece));
  }
}

// Which rank has the row of which position.
void GramExchange::learn_owners(std::span<const OwnedRow> rows, int64_t k) {
  rows_of_.assign(static_cast<std::size_t>(comm_.size()), 1);
  std::vector<int64_t> counts(rows_of_.size());
  counts[static_cast<std::size_t>(comm_.rank())] = static_cast<int64_t>(rows.size());
  comm_.allgatherv(std::span(counts), rows_of_);
  rows_of_ = counts;
  positions_.assign(static_cast<std::size_t>(k), 0);
  auto next = std::accumulate(counts.begin(), counts.begin() + comm_.rank(), int64_t{0});
  for (const OwnedRow& row : rows) positions_[static_cast<std::size_t>(next++)] = row.position;
  comm_.allgatherv(std::span(positions_), rows_of_);
}

// Empty when there is no such block or piece.
RowPart GramExchange::piece_of(int64_t block, int64_t piece) const {
  if (block >= static_cast<int64_t>(blocks_.size())) return {};
  const Block& whole = blocks_[static_cast<std::size_t>(block)];
  const int64_t begin = std::min(whole.begin + piece * kPiece, whole.end);
  return {begin, std::min(begin + kPiece, whole.end)};
}

// Block first_block + r goes to rank r: one piece of it, of all rows.
void GramExchange::exchange(std::span<const OwnedRow> rows, int64_t first_block, int64_t piece) {
  const auto ranks = rows_of_.size();
  const RowPart mine = piece_of(first_block + comm_.rank(), piece);
  std::vector<int64_t> sends(ranks), receives(ranks);
  out_.clear();
  for (std::size_t to = 0; to < ranks; ++to) {
    const RowPart theirs = piece_of(first_block + static_cast<int64_t>(to), piece);
    const bool own = static_cast<int>(to) == comm_.rank();  // stays where it is
    sends[to] = own ? 0 : theirs.size() * static_cast<int64_t>(rows.size());
    receives[to] = own ? 0 : mine.size() * rows_of_[to];
    for (std::size_t i = 0; !own && i < rows.size(); ++i) {
      const auto values = rows[i].values.begin();
      out_.insert(out_.end(), values + theirs.begin, values + theirs.end);
    }
  }
  in_.resize(
      static_cast<std::size_t>(std::accumulate(receives.begin(), receives.end(), int64_t{0})));
  comm_.alltoallv(std::span<const float>(out_), sends, std::span(in_), receives);
}

// Where a piece of every row lies now, by position.
std::vector<const float*> GramExchange::locate(std::span<const OwnedRow> rows,
                                               RowPart piece) const {
  std::vector<const float*> at(positions_.size());
  const float* next = in_.data();
  std::size_t entry = 0;
  for (std::size_t rank = 0; rank < rows_of_.size(); ++rank) {
    const bool own = static_cast<int>(rank) == comm_.rank();
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows_of_[rank]); ++i, ++entry) {
      at[static_cast<std::size_t>(positions_[entry])] =
          own ? rows[i].values.data() + piece.begin : next;
      if (!own) next += piece.size();
    }
  }
  return at;
}

std::vector<double> GramExchange::gram(std::span<const OwnedRow> rows, int64_t k) {
  learn_owners(rows, k);
  const int64_t ranks = comm_.size();
  std::vector<double> mine;  // lower triangles of this rank's blocks
  for (int64_t first = 0; first < static_cast<int64_t>(blocks_.size()); first += ranks) {
    std::vector<double> block(static_cast<std::size_t>(k * k));
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      exchange(rows, first, piece);
      const RowPart part = piece_of(first + comm_.rank(), piece);
      add_gram(locate(rows, part), part.size(), block);
    }
    if (first + comm_.rank() >= static_cast<int64_t>(blocks_.size())) continue;
    for (int64_t row = 0; row < k; ++row) {
      mine.insert(mine.end(), block.begin() + row * k, block.begin() + row * k + row + 1);
    }
  }
  return sum_blocks(std::move(mine), k);
}

// On rank 0: block b is the (b / ranks)-th of rank b % ranks.
std::vector<double> GramExchange::sum_blocks(std::vector<double> mine, int64_t k) {
  std::vector<int64_t> counts;
  const auto all = comm_.gatherv(std::span<const double>(mine), 0, &counts);
  if (comm_.rank() != 0) return {};
  std::vector<std::size_t> begins(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), std::size_t{0});
  const auto size = static_cast<std::size_t>(k);
  std::vector<double> sum(parts_ * size * size);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    std::size_t& next = begins[b % begins.size()];
    double* part = sum.data() + blocks_[b].part * size * size;
    for (std::size_t row = 0; row < size; ++row) {
      for (std::size_t column = 0; column <= row; ++column) {
        part[row * size + column] += all[next++];
      }
    }
  }
  for (std::size_t part = 0; part < parts_; ++part) {
    mirror(std::span(sum).subspan(part * size * size, size * size), size);
  }
  return sum;
}

}  // namespace hanse
