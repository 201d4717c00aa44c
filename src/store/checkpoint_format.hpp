// Parts that the writer and the reader of checkpoints share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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

}  // namespace hanse
