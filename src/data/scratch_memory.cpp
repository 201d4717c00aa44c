#include "hanse/data/scratch_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/unnamed_file.hpp"

namespace hanse {

namespace {

constexpr std::size_t kLeastInFile = 1 << 20;  // bytes

}  // namespace

ScratchMemory::ScratchMemory(std::string folder)
    : folder_(std::move(folder)), before_(std::pmr::set_default_resource(this)) {}

ScratchMemory::~ScratchMemory() { std::pmr::set_default_resource(before_); }

void* ScratchMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes < kLeastInFile) return before_->allocate(bytes, alignment);
  const int file = open_unnamed_file(folder_, "a scratch file");
  void* start = MAP_FAILED;
  if (reserve_blocks(file, 0, static_cast<int64_t>(bytes))) {
    start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const std::string why = errno_text();
  close(file);
  if (start != MAP_FAILED) return start;
  throw IoError(fmt::format("no room for {} bytes of samples in a scratch file: {}", bytes, why),
                folder_, "make room, or write to another disk");
}

void ScratchMemory::do_deallocate(void* data, std::size_t bytes, std::size_t alignment) {
  if (bytes < kLeastInFile) return before_->deallocate(data, bytes, alignment);
  munmap(data, bytes);
}

}  // namespace hanse
