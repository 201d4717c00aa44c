// Room for samples on the disk.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <string>

namespace hanse {

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
