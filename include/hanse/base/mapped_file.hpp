// Files as memory, and room on the disk that a killed process leaves nothing of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>

namespace hanse {

// kCopy: what is written stays with this mapping, which from then on has such pages of its own.
enum class Access { kRead, kWrite, kCopy };

// The first `bytes` bytes of a file; pages come as they are touched, and with kWrite what is
// written goes to the file. REQUIRES: the file is that long. Throws IoError.
std::shared_ptr<std::byte> map_file(const std::string& path, int64_t bytes, Access access);
// The same of an open file, which may be closed then. Null when it cannot; errno says why.
std::shared_ptr<std::byte> map_open_file(int file, int64_t bytes, Access access);

// Opens a new file in `folder` and takes its name away. Throws IoError: it cannot; `what` says in
// the message what it was for, "a file for ...".
int open_unnamed_file(const std::string& folder, const std::string& what);

// Takes the disk's blocks for `bytes` from `begin` on: a store to a mapped hole of a full disk
// would end the process. False when there is no room; errno says why.
bool reserve_blocks(int file, int64_t begin, int64_t bytes);

// While one lives, what datasets hold of samples lies in files without a name in `folder`, mapped:
// the system writes their pages out when memory is short, and a killed process leaves nothing.
// Parts below a mebibyte stay in memory. For a process that reads data and does nothing else: all
// threads' datasets come to lie there, and must go before the object does.
// Throws, when room is asked for, IoError: the folder cannot be written, or its disk is full.
class ScratchMemory final : public std::pmr::memory_resource {
 public:
  explicit ScratchMemory(std::string folder);
  ~ScratchMemory() override;
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::string folder_;
  std::pmr::memory_resource* before_;
};

}  // namespace hanse
