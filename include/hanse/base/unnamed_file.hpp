// Room on the disk that a killed process leaves nothing of.
#pragma once

#include <cstdint>
#include <string>

namespace hanse {

// Opens a new file in `folder` and takes its name away. Throws IoError: it cannot; `what` says in
// the message what it was for, "a file for ...".
int open_unnamed_file(const std::string& folder, const std::string& what);

// Takes the disk's blocks for `bytes` from `begin` on: a store to a mapped hole of a full disk
// would end the process. False when there is no room; errno says why.
bool reserve_blocks(int file, int64_t begin, int64_t bytes);

}  // namespace hanse
