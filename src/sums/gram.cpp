#include "hanse/sums/gram.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "hanse/base/products.hpp"

namespace hanse {

namespace {

// n / by, rounded up.
int64_t divide(int64_t n, int64_t by) { return (n + by - 1) / by; }

// At least two blocks, so that no rank gets a whole row.
int64_t block_length(int64_t size) {
  const int64_t blocks =
      std::clamp(divide(size, GramBlocks::kLength), std::min<int64_t>(size, 2), GramBlocks::kMost);
  return divide(size, blocks);
}

int64_t triangle(int64_t k) { return k * (k + 1) / 2; }

}  // namespace

// How the entries of a lower triangle are dealt to ranks that add them.
struct GramShares {
  int64_t all;
  int ranks;

  GramShares(int64_t entries, int comm_size) : all(entries), ranks(comm_size) {}
  int64_t begin(int rank) const { return all * rank / ranks; }
  int64_t size(int rank) const { return begin(rank + 1) - begin(rank); }
};

namespace {

// Blocks of each rank, whose triangles of so many entries are sent and added at once.
int64_t blocks_at_once(int64_t entries, int64_t bytes) {
  const auto each = static_cast<int64_t>(sizeof(double)) * std::max<int64_t>(1, entries);
  return std::max<int64_t>(1, bytes / each);
}

}  // namespace

int64_t block_count(std::span<const RowPart> parts) {
  int64_t blocks = 0;
  for (const RowPart& part : parts) blocks += divide(part.size(), block_length(part.size()));
  return blocks;
}

GramTraffic row_traffic(std::span<const RowPart> parts, double k, int64_t ranks) {
  double values = 0;
  int64_t longest = 0;
  for (const RowPart& part : parts) {
    values += static_cast<double>(part.size());
    longest = std::max(longest, block_length(part.size()));
  }
  const auto exchanges =
      static_cast<double>(divide(block_count(parts), ranks) * divide(longest, RowExchange::kPiece));
  const auto n = static_cast<double>(ranks);
  const double others = n - 1;
  const double owners = sizeof(int64_t) * (n + k) * others;  // learn_owners()
  const double rows = sizeof(float) * values * k * others / n;
  return {.bytes = owners + rows,
          .messages = (2 + exchanges) * n * others,
          .operations = 2 + exchanges,
          .kept_bytes = 2 * sizeof(float) * k * others / n *
                        static_cast<double>(std::min(longest, RowExchange::kPiece))};
}

GramTraffic gram_traffic(std::span<const RowPart> parts, double k, int64_t ranks) {
  GramTraffic traffic = row_traffic(parts, k, ranks);
  const int64_t blocks = block_count(parts);
  const double entries = std::round(k * (k + 1) / 2);
  const GramShares shares(static_cast<int64_t>(entries), static_cast<int>(ranks));
  double sent = 0;  // entries: of blocks to those who add them, and of sums to rank 0
  for (int rank = 0; rank < ranks; ++rank) {
    const auto share = static_cast<double>(shares.size(rank));
    sent += static_cast<double>(divide(blocks - rank, ranks)) * (entries - share);
    if (rank > 0) sent += static_cast<double>(parts.size()) * share;
  }
  const auto n = static_cast<double>(ranks);
  const int64_t mine = divide(blocks, ranks);
  const int64_t at_once =
      std::min(mine, blocks_at_once(static_cast<int64_t>(entries), GramSums::kBytes));
  const auto exchanges = static_cast<double>(divide(mine, at_once));
  traffic.bytes += sizeof(double) * sent;
  traffic.messages += (exchanges * n + 1) * (n - 1);
  traffic.operations += exchanges + 1;
  const auto layers = static_cast<double>(parts.size());
  const double copies = ranks == 1 ? 1 : 3;
  traffic.kept_bytes += sizeof(double) * (k * k + entries * static_cast<double>(at_once) * copies +
                                          layers * entries / n);
  traffic.matrix_bytes = sizeof(double) * layers * (k * k + entries);
  return traffic;
}

GramBlocks::GramBlocks(Communicator& comm, const std::vector<RowPart>& parts)
    : comm_(comm), parts_(parts.size()) {
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const int64_t length = block_length(parts[part].size());
    for (int64_t begin = parts[part].begin; begin < parts[part].end; begin += length) {
      blocks_.push_back({{begin, std::min(begin + length, parts[part].end)}, part});
    }
    longest_ = std::max(longest_, length);
  }
}

RowPart GramBlocks::at(int64_t block) const {
  return block < size() ? blocks_[static_cast<std::size_t>(block)].values : RowPart();
}

void GramBlocks::learn_owners(std::span<const int64_t> positions, int64_t k) {
  const auto rank = static_cast<std::size_t>(comm_.rank());
  const std::vector<int64_t> ones(static_cast<std::size_t>(comm_.size()), 1);
  rows_of_.assign(ones.size(), 0);
  rows_of_[rank] = static_cast<int64_t>(positions.size());
  comm_.allgatherv(std::span(rows_of_), ones);
  positions_.assign(static_cast<std::size_t>(k), 0);
  const auto before =
      std::accumulate(rows_of_.begin(), rows_of_.begin() + comm_.rank(), int64_t{0});
  std::copy(positions.begin(), positions.end(), positions_.begin() + before);
  comm_.allgatherv(std::span(positions_), rows_of_);
}

GramSums::GramSums(Communicator& comm, const GramBlocks& blocks, int64_t bytes)
    : comm_(comm),
      blocks_(blocks),
      at_once_(blocks_at_once(triangle(std::ssize(blocks.positions())), bytes)) {
  const GramShares shares(triangle(std::ssize(blocks.positions())), comm.size());
  sums_.resize(blocks.parts() * static_cast<std::size_t>(shares.size(comm.rank())));
  products_.reserve(static_cast<std::size_t>(std::min(blocks.mine(), at_once_) * shares.all));
}

void GramSums::next(int64_t first) {
  const int64_t end = std::min(first + comm_.size(), blocks_.size());
  if (end < blocks_.size() && end - added_ < at_once_ * comm_.size()) return;
  add(end);
  added_ = end;
  products_.clear();
}

// Adds the blocks before `end`.
void GramSums::add(int64_t end) {
  const GramShares shares(triangle(std::ssize(blocks_.positions())), comm_.size());
  const int64_t mine = shares.size(comm_.rank());
  const std::vector<double> received = comm_.size() == 1 ? std::vector<double>() : exchange(end);
  const double* from = comm_.size() == 1 ? products_.data() : received.data();
  std::vector<const double*> next;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    next.push_back(from);
    from += (blocks_.blocks_of(rank, end) - blocks_.blocks_of(rank, added_)) * mine;
  }
  for (int64_t b = added_; b < end; ++b) {
    const double*& block = next[static_cast<std::size_t>(b % comm_.size())];
    double* const part = sums_.data() + static_cast<int64_t>(blocks_.part_of(b)) * mine;
    for (int64_t i = 0; i < mine; ++i) part[i] += block[i];
    block += mine;
  }
}

// Sends each rank its share of this rank's blocks before `end`. Returns this rank's shares of all
// of them, those of one rank after another's.
std::vector<double> GramSums::exchange(int64_t end) const {
  const GramShares shares(triangle(std::ssize(blocks_.positions())), comm_.size());
  const auto blocks_of = [&](int rank) {
    return blocks_.blocks_of(rank, end) - blocks_.blocks_of(rank, added_);
  };
  std::vector<double> out;
  out.reserve(products_.size());
  std::vector<int64_t> sends, receives;
  const int64_t mine = blocks_of(comm_.rank());
  for (int rank = 0; rank < comm_.size(); ++rank) {
    for (int64_t block = 0; block < mine; ++block) {
      const auto first = products_.begin() + block * shares.all + shares.begin(rank);
      out.insert(out.end(), first, first + shares.size(rank));
    }
    sends.push_back(mine * shares.size(rank));
    receives.push_back(blocks_of(rank) * shares.size(comm_.rank()));
  }
  std::vector<double> in(
      static_cast<std::size_t>(std::accumulate(receives.begin(), receives.end(), int64_t{0})));
  comm_.alltoallv(std::span<const double>(out), sends, std::span(in), receives);
  return in;
}

// A triangle at the end of its matrix moves to its rows from the first on: none lies behind where
// it comes from.
std::vector<double> GramSums::matrices() {
  products_ = std::vector<double>();  // {} would keep the memory
  if (comm_.size() > 1) sums_ = comm_.gatherv(std::span<const double>(sums_), 0);
  if (comm_.rank() != 0) return {};
  const std::size_t k = blocks_.positions().size();
  const GramShares shares(triangle(static_cast<int64_t>(k)), comm_.size());
  std::vector<double> result(blocks_.parts() * k * k);
  for (std::size_t part = 0; part < blocks_.parts(); ++part) {
    double* const matrix = result.data() + part * k * k;
    double* const lower = matrix + k * k - shares.all;
    auto from = sums_.cbegin();
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const int64_t size = shares.size(rank);
      std::copy_n(from + static_cast<int64_t>(part) * size, size, lower + shares.begin(rank));
      from += static_cast<int64_t>(blocks_.parts()) * size;
    }
    const double* entry = lower;
    for (std::size_t row = 0; row < k; ++row) {
      std::copy_n(entry, row + 1, matrix + row * k);
      entry += row + 1;
    }
    mirror(std::span(matrix, k * k), k);
  }
  return result;
}

void append_lower(std::span<const double> matrix, int64_t size, std::vector<double>& out) {
  for (int64_t row = 0; row < size; ++row) {
    const auto first = matrix.begin() + row * size;
    out.insert(out.end(), first, first + row + 1);
  }
}

// Empty if there is no such block or piece.
RowPart RowExchange::piece_of(int64_t block, int64_t piece) const {
  const RowPart whole = blocks_.at(block);
  const int64_t begin = std::min(whole.begin + piece * kPiece, whole.end);
  return {begin, std::min(begin + kPiece, whole.end)};
}

// Sends a piece of block first_block + r, of all rows, to rank r.
void RowExchange::exchange(std::span<const OwnedRow> rows, int64_t first_block, int64_t piece) {
  const auto rows_of = blocks_.rows_of();
  const auto ranks = rows_of.size();
  const RowPart mine = piece_of(first_block + comm_.rank(), piece);
  std::vector<int64_t> sends(ranks), receives(ranks);
  out_.clear();
  for (std::size_t to = 0; to < ranks; ++to) {
    const RowPart theirs = piece_of(first_block + static_cast<int64_t>(to), piece);
    const bool own = static_cast<int>(to) == comm_.rank();  // stays on this rank
    sends[to] = own ? 0 : theirs.size() * static_cast<int64_t>(rows.size());
    receives[to] = own ? 0 : mine.size() * rows_of[to];
    for (std::size_t i = 0; !own && i < rows.size(); ++i) {
      const auto values = rows[i].values.begin();
      out_.insert(out_.end(), values + theirs.begin, values + theirs.end);
    }
  }
  in_.resize(
      static_cast<std::size_t>(std::accumulate(receives.begin(), receives.end(), int64_t{0})));
  comm_.alltoallv(std::span<const float>(out_), sends, std::span(in_), receives);
}

// The addresses of a piece of every row, by position.
std::vector<const float*> RowExchange::locate(std::span<const OwnedRow> rows, RowPart piece) const {
  const auto positions = blocks_.positions();
  const auto rows_of = blocks_.rows_of();
  std::vector<const float*> at(positions.size());
  const float* next = in_.data();
  std::size_t entry = 0;
  for (std::size_t rank = 0; rank < rows_of.size(); ++rank) {
    const bool own = static_cast<int>(rank) == comm_.rank();
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows_of[rank]); ++i, ++entry) {
      at[static_cast<std::size_t>(positions[entry])] =
          own ? rows[i].values.data() + piece.begin : next;
      if (!own) next += piece.size();
    }
  }
  return at;
}

void RowExchange::each(std::span<const OwnedRow> rows, int64_t k, const Visit& visit,
                       const std::function<void(int64_t first)>& done) {
  std::vector<int64_t> positions;
  for (const OwnedRow& row : rows) positions.push_back(row.position);
  blocks_.learn_owners(positions, k);
  for (int64_t first = 0; first < blocks_.size(); first += comm_.size()) {
    const int64_t mine = first + comm_.rank();
    for (int64_t piece = 0; piece < divide(blocks_.longest(), kPiece); ++piece) {
      exchange(rows, first, piece);
      const RowPart part = piece_of(mine, piece);
      if (part.size() > 0) visit(mine, part, locate(rows, part));
    }
    if (done) done(first);
  }
}

std::vector<double> GramExchange::gram(std::span<const OwnedRow> rows, int64_t k) {
  std::optional<GramSums> sums;  // once the owners are known
  std::vector<double> block;
  const auto known = [&]() -> GramSums& { return sums ? *sums : sums.emplace(comm_, blocks()); };
  each(
      rows, k,
      [&](int64_t number, RowPart part, std::span<const float* const> values) {
        const RowPart whole = blocks().at(number);
        if (part.begin == whole.begin) block.assign(static_cast<std::size_t>(k * k), 0);
        add_gram(values, part.size(), block);
        if (part.end == whole.end) append_lower(block, k, known().products());
      },
      [&](int64_t first) { known().next(first); });
  block = std::vector<double>();
  return known().matrices();
}

}  // namespace hanse
