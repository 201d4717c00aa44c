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

// Throws IoError when this process cannot hope for so many bytes, which `what` takes ("the samples
// take"): Linux ends a process that writes to more memory than there is, without a word. A few
// megabytes are not looked at.
void require_memory(int64_t bytes, const std::string& what, const std::string& where,
                    const std::string& hint);

// Bytes behind a name in lines "NAME: N kB", as in /proc/meminfo and /proc/self/status; nothing
// where it is not.
std::optional<int64_t> bytes_stated(const std::filesystem::path& file, const std::string& name);

}  // namespace hanse
