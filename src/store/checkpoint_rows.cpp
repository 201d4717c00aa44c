
#include <algorithm>
#include <exception>
#include <limits>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "checkpoint_format.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

namespace {

using Block = hdf5::Dataset::Block;

int64_t rows_a_piece(const Directory& directory) {
  return std::max<int64_t>(1, kPieceFloats / directory.width);
}

int64_t agreed_width(const ClientStateStore* clients, Communicator& comm) {
  const int64_t mine = clients ? clients->width() : -1;
  const int64_t none = std::numeric_limits<int64_t>::max();
  const int64_t largest = comm.allreduce_one(mine, ReduceOp::kMax);
  const int64_t smallest = comm.allreduce_one(clients ? mine : none, ReduceOp::kMin);
  if (largest >= 0 && smallest != largest) {
    throw IoError(fmt::format("client states have {} floats on one rank and {} on another",
                              smallest, largest));
  }
  return largest;
}

// On rank 0: sorts the ranks' ids together.
void merge(const std::vector<int64_t>& all, const std::vector<int64_t>& counts, Directory& out) {
  std::vector<std::pair<int64_t, int>> entries;
  entries.reserve(all.size());
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    for (int64_t i = 0; i < counts[rank]; ++i) entries.emplace_back(all[next++], rank);
  }
  std::sort(entries.begin(), entries.end());
  for (const auto& [id, rank] : entries) {
    if (!out.ids.empty() && out.ids.back() == id) {
      throw IoError(
          fmt::format("client {} has a state on ranks {} and {}", id, out.owners.back(), rank));
    }
    out.ids.push_back(id);
    out.owners.push_back(rank);
  }
}

// Rows of the file that this rank holds, ascending.
std::vector<int64_t> own_rows(const Directory& directory, const ClientStateStore* clients) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; clients && row < directory.rows(); ++row) {
    if (clients->contains(directory.ids[static_cast<std::size_t>(row)])) rows.push_back(row);
  }
  return rows;
}

// This rank's values of the block, row after row.
std::vector<float> pack(const Block& block, const Directory& directory,
                        const ClientStateStore* clients) {
  std::vector<float> values;
  for (int64_t row = block.row; clients && row < block.row + block.rows; ++row) {
    const int64_t id = directory.ids[static_cast<std::size_t>(row)];
    if (!clients->contains(id)) continue;
    const auto part = clients->existing_row(id).subspan(static_cast<std::size_t>(block.column),
                                                        static_cast<std::size_t>(block.columns));
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

// Writes neighbouring rows in one piece, a long row in several.
void write_own_rows(hdf5::File& file, const Directory& directory, const ClientStateStore* clients) {
  hdf5::Dataset rows = file.dataset(kClientRows);
  const std::vector<int64_t> own = own_rows(directory, clients);
  for (std::size_t begin = 0, end = 0; begin < own.size(); begin = end) {
    end = begin + 1;
    while (end < own.size() && own[end] == own[end - 1] + 1 &&
           static_cast<int64_t>(end - begin) < rows_a_piece(directory)) {
      ++end;
    }
    for (int64_t column = 0; column < directory.width; column += kPieceFloats) {
      const Block block{own[begin], static_cast<int64_t>(end - begin), column,
                        std::min(kPieceFloats, directory.width - column)};
      rows.write_block(block, pack(block, directory, clients).data());
    }
  }
  rows.close();
}

// Tells a host that does not see the file, or sees another of that name, from a full disk.
void require_visible(const std::string& path, int64_t bytes) {
  int64_t seen = -1;
  std::string reason;
  try {
    seen = Descriptor(path, O_RDWR).size();
  } catch (const IoError& error) {
    reason = error.what();
  }
  if (seen == bytes) return;
  if (reason.empty()) reason = fmt::format("{} bytes long, must be {}", seen, bytes);
  throw IoError("this host does not see the checkpoint that rank 0 has begun: " + reason, path,
                "run.out must be on a file system that all hosts share");
}

// Every rank writes its own rows at once, through a file that it has opened itself: a rank that
// fails leaves no other one waiting, as it would in a file that MPI-IO has opened for all.
void write_rows_at_once(const std::string& path, int64_t file_bytes, const Directory& directory,
                        const ClientStateStore* clients, Communicator& comm) {
  agree_on(comm, [&] { require_visible(path, file_bytes); });
  agree_on(comm, [&] {
    {
      const hdf5::Section section;
      hdf5::File file = hdf5::File::open_to_write(path);
      write_own_rows(file, directory, clients);
      file.close();
    }
    sync_file(path);
  });
}

// On rank 0: turns the ranks' values, one rank after another, into one row after another.
std::vector<float> unpack(const Block& block, const Directory& directory,
                          const std::vector<float>& gathered, const std::vector<int64_t>& counts) {
  std::vector<int64_t> next(counts.size(), 0);  // by rank, in `gathered`
  for (std::size_t rank = 1; rank < counts.size(); ++rank) {
    next[rank] = next[rank - 1] + counts[rank - 1];
  }
  std::vector<float> values(gathered.size());
  for (int64_t row = 0; row < block.rows; ++row) {
    int64_t& from =
        next[static_cast<std::size_t>(directory.owners[static_cast<std::size_t>(block.row + row)])];
    std::copy_n(gathered.begin() + from, block.columns, values.begin() + row * block.columns);
    from += block.columns;
  }
  return values;
}

void write_block(const std::string& path, const Block& block, const std::vector<float>& values) {
  const hdf5::Section section;
  hdf5::File file = hdf5::File::open_to_write(path);
  hdf5::Dataset rows = file.dataset(kClientRows);
  rows.write_block(block, values.data());
  rows.close();
  file.close();
}

// Writes all ranks' rows through the memory of rank 0, a piece at a time: over threads, and for
// short rows, each of which would be a small write of its own, because neighbours lie on different
// ranks. A failure waits until all pieces are through: the other ranks count on the gathers.
void write_rows_through_root(const std::string& path, const Directory& directory,
                             const ClientStateStore* clients, Communicator& comm) {
  std::exception_ptr failure;
  const int64_t step = rows_a_piece(directory);
  for (int64_t row = 0; row < directory.rows(); row += step) {
    for (int64_t column = 0; column < directory.width; column += kPieceFloats) {
      const Block block{row, std::min(step, directory.rows() - row), column,
                        std::min(kPieceFloats, directory.width - column)};
      const std::vector<float> mine = pack(block, directory, clients);
      std::vector<int64_t> counts;
      const auto gathered = comm.gatherv(std::span<const float>(mine), 0, &counts);
      if (comm.rank() != 0 || failure) continue;
      try {
        write_block(path, block, unpack(block, directory, gathered, counts));
      } catch (...) {
        failure = std::current_exception();
      }
    }
  }
  agree(comm, failure);
}

}  // namespace

Directory gather_directory(const ClientStateStore* clients, Communicator& comm) {
  Directory directory;
  directory.width = agreed_width(clients, comm);
  if (directory.width < 0) return directory;
  const std::vector<int64_t> own = clients ? clients->clients() : std::vector<int64_t>();
  std::vector<int64_t> counts;
  const auto all = comm.gatherv(std::span<const int64_t>(own), 0, &counts);
  agree_on(comm, [&] {
    if (comm.rank() == 0) merge(all, counts, directory);
  });
  bcast_list(comm, directory.ids);
  return directory;
}

void write_rows(const std::string& path, int64_t file_bytes, const Directory& directory,
                const ClientStateStore* clients, Communicator& comm) {
  if (directory.rows() == 0 || directory.width <= 0) return;
  if (comm.size() == 1 || directory.width >= kShortRowFloats) {
    comm.bcast(std::span(&file_bytes, 1), 0);
    write_rows_at_once(path, file_bytes, directory, clients, comm);
  } else {
    write_rows_through_root(path, directory, clients, comm);
  }
}

}  // namespace hanse
