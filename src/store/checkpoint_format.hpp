// Parts that the writer and the reader of checkpoints share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hanse/client/state_store.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/seal.hpp"

namespace hanse {

// Floats that are read or written at once: 8 MiB.
constexpr int64_t kPieceFloats = int64_t{2} << 20;

// Shorter rows travel together with their neighbours: one call for each would take longer.
constexpr int64_t kShortRowFloats = 1024;

inline const std::string kStateGroup = "/state";
inline const std::string kClientIds = "/clients/ids";
inline const std::string kClientRows = "/clients/rows";

// Path of the file under construction.
std::string temporary_path(const std::string& folder, int64_t round);
// Removes the unfinished files of killed runs.
void remove_temporaries(const std::string& folder);

// The round in a checkpoint's file name; nothing for other names.
std::optional<int64_t> round_of_name(const std::string& file_name);

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
