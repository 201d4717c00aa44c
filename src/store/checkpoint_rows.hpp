// The clients' rows of a checkpoint: their owners, and how all ranks write theirs. Private to
// store/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "hanse/client/state_store.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// The owner of each row of the file.
struct Directory {
  int64_t width = -1;        // floats a client; -1: there are no client states
  std::vector<int64_t> ids;  // all ranks', ascending: the rows of the file
  std::vector<int> owners;   // the rank that holds each row; on rank 0 only

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
  int64_t bytes() const { return rows() * (8 + std::max<int64_t>(width, 0) * 4); }
};

// Collective. All ranks throw the same error when two ranks hold one client.
Directory gather_directory(const ClientStateStore* clients, Communicator& comm);

// Writes every rank's rows into the dataset that rank 0 has laid out in the file `path`, which is
// `file_bytes` long. Collective; all ranks throw AgreedError when one fails. Over MPI all ranks
// write long rows at once; else rank 0 writes for all.
void write_rows(const std::string& path, int64_t file_bytes, const Directory& directory,
                const ClientStateStore* clients, Communicator& comm);

}  // namespace hanse
