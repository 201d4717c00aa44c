// Files as memory, and room on the disk of which a killed process leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>

namespace hanse {

// kCopy: pages that are written become this mapping's own, and the file keeps its bytes.
enum class Access { kRead, kWrite, kCopy };

// Maps the first `bytes` bytes of a file; pages are read as they are touched, and kWrite writes
// changes to the file. REQUIRES: the file is that long. Throws IoError.
std::shared_ptr<std::byte> map_file(const std::string& path, int64_t bytes, Access access);
// Maps an open file, which may be closed then. Null when it cannot; errno says why.
std::shared_ptr<std::byte> map_open_file(int file, int64_t bytes, Access access);

// Opens a new file in `folder` and takes its name away. Throws IoError, whose message says what it
// was for: `what`, "a file for ...".
int open_unnamed_file(const std::string& folder, const std::string& what);

// Takes the disk's blocks for `bytes` from `begin` on: a store to a mapped hole of a full disk
// would end the process. False when there is no room; errno says why.
bool reserve_blocks(int file, int64_t begin, int64_t bytes);

// While one lives, datasets keep their samples in mapped files without a name in `folder`: the
// system writes their pages out when memory is short, and a killed process leaves nothing. Parts
// below a mebibyte stay in memory. It serves the datasets of all threads, which must go before it
// does: use it in a process that only reads data.
// allocate() throws IoError: the folder cannot be written, or its disk is full.
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
