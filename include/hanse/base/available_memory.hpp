// What memory there is for a process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace hanse {

// Bytes that this process can hope for: what the machine has available, or less where a control
// group (a container, a Slurm job) has a lower limit. Where nothing says, the largest number.
// `root` holds proc and sys.
int64_t available_memory(const std::filesystem::path& root = "/");

// Bytes behind a name in lines "NAME: N kB", as in /proc/meminfo and /proc/self/status; nothing
// where it is not.
std::optional<int64_t> bytes_stated(const std::filesystem::path& file, const std::string& name);

}  // namespace hanse
