// What memory there is for a process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace hanse {

// Bytes that this process can hope for: what the machine has available, or less where a control
// group (a container, a Slurm job) has a lower limit. Where nothing says, the largest number.
// `root` holds proc and sys.
int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace hanse
