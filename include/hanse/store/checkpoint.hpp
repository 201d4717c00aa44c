// Checkpoints: atomic, digested HDF5 files, written by all ranks together.
//
// File: a 512-byte user block, then HDF5. The user block is the text
//   "HANSE-CHECKPOINT 1\n" "bytes N\n" "xxh3 HEX32\n"
// padded with zeros: N is the length of the whole file, HEX32 the XXH3-128 of everything behind the
// block. HDF5 tools skip it. Datasets: /state/NAME for every array of the server's state,
// /clients/ids [n] int64 ascending and /clients/rows [n, width] float32 for client states; root
// attributes `format` (1) and `round`. A text is one string of fixed length, an empty one has a
// null dataspace. Round 10 of a run whose rule has two numbers and where clients 3 and 8 have
// state: "state/rule/n" [2], "clients/ids" = 3 8, "clients/rows" [2, width].
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

// Writes folder/round-NNNNNN.h5, and makes the folder if it is missing. `server` counts on rank 0
// only; `clients` holds this rank's rows (null: none). Collective.
// The file appears under its name only when every call of every rank succeeded and the data is on
// the disk; else the temporary file is removed, and all ranks throw an IoError of one text: older
// checkpoints are untouched and the ranks are still in step, so a caller may catch it and train on.
// A CommError means that the ranks have lost each other.
// Files of equal contents are equal byte by byte, whatever the number of ranks.
// Cost: one write of all rows, one read back for the digest; under 40 MiB of memory on rank 0.
void write_checkpoint(const std::string& folder, int64_t round, const State& server,
                      const ClientStateStore* clients, Communicator& comm,
                      Readers readers = Readers::kAll);

// Removes the checkpoints up to `newest_round` but for the `keep` newest; keep = 0 keeps all. Later
// rounds' stay: a resume has found them damaged, and the run will replace them.
void prune_checkpoints(const std::string& folder, int64_t keep, int64_t newest_round);

// The file's damage; nothing when length and digest are right.
std::optional<std::string> checkpoint_damage(const std::string& file);

struct FoundCheckpoint {
  std::string file;
  int64_t round = 0;
};
// The newest complete checkpoint. Damaged ones are skipped and reported to `skipped(file, why)`.
std::optional<FoundCheckpoint> newest_checkpoint(
    const std::string& folder,
    const std::function<void(const std::string&, const std::string&)>& skipped);

// The server's state. Throws IoError when the file is damaged; reads all of it for the digest.
State read_checkpoint_state(const std::string& file);

// Fills the rows of the clients for which `mine` is true, 8 MiB at a time; nothing if the file has
// no client states. Throws IoError when the length is wrong or the rows have another width. It
// leaves the digest to newest_checkpoint and read_checkpoint_state, so that not every rank reads
// all.
void read_checkpoint_clients(const std::string& file, const std::function<bool(int64_t)>& mine,
                             ClientStateStore& clients);

// The row of one client's states; empty: it has none. Throws IoError as above, of a damaged file.
std::vector<float> read_checkpoint_client(const std::string& file, int64_t client);

// Path of the checkpoint of a round.
std::string checkpoint_path(const std::string& folder, int64_t round);

}  // namespace hanse
