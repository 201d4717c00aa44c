// The memory that a process can have.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>

namespace hanse {

// Bytes that this process can hope for: what the machine has available, or less where a control
// group (a container, a Slurm job) or the limit of a process (ulimit -v and -d) is lower; the
// largest number where nothing limits it. `root` holds proc and sys.
int64_t available_memory(const std::filesystem::path& root = "/");

// Throws IoError when this process cannot hope for so many bytes; `what` starts the message ("the
// samples take"). Linux ends a process that writes to more memory than there is, without a word. A
// few megabytes pass unchecked.
void require_memory(int64_t bytes, const std::string& what, const std::string& where,
                    const std::string& hint);

// "8.0 TB".
std::string memory_text(double bytes);

// Throws InvalidArgument before the first round when a job asks for more memory than this process
// can hope for: "WHAT 8.0 TB of memory, and there are 16.0 GB". `where` is the key that asks. A few
// megabytes pass unchecked.
void require_planned_memory(double bytes, const std::string& what, const std::string& where,
                            const std::string& hint);

// Throws InvalidArgument, which names `where`, unless this process can have so many more threads at
// once and so much memory beside them ("which products take"): it tries both and gives them back.
// Call it for libraries that wait for ever, or end the process, without them. Cost: no page is
// written.
struct TriedMemory {
  int64_t bytes = 0;
  std::string purpose = "";
  bool is_data = true;  // false: it counts as address space alone, as libraries do
  std::string hint = "raise the limit, or run fewer threads";
};
void require_threads(int64_t threads, const TriedMemory& memory, const std::string& where);

// Did an allocation fail, or a size that no memory has?
bool is_out_of_memory(const std::exception& error);
// "out of memory", the phase in which it happened (failed_phase()), and the limits of the process.
std::string out_of_memory_text();
// That, with a hint.
std::string out_of_memory_report();

// The bytes that a line "NAME: N kB" states, as in /proc/meminfo and /proc/self/status; nothing
// where there is no such line.
std::optional<int64_t> bytes_stated(const std::filesystem::path& file, const std::string& name);

}  // namespace hanse
