#include "hanse/data/scratch_memory.hpp"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr std::size_t kLeastInFile = 1 << 20;  // bytes

// Open, in `folder`, without a name.
int open_scratch(const std::string& folder) {
  std::string path = folder + "/scratch-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) throw IoError("cannot create a scratch file: " + errno_text(), folder);
  unlink(path.c_str());
  return file;
}

// The blocks are taken now: a store to a hole of a full disk would end the process.
void* map_blocks(int file, std::size_t bytes) {
  int code = 0;
  do {
    code = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  } while (code == EINTR);
  errno = code;
  if (code != 0) return MAP_FAILED;
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

}  // namespace

ScratchMemory::ScratchMemory(std::string folder)
    : folder_(std::move(folder)), before_(std::pmr::set_default_resource(this)) {}

ScratchMemory::~ScratchMemory() { std::pmr::set_default_resource(before_); }

void* ScratchMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes < kLeastInFile) return before_->allocate(bytes, alignment);
  const int file = open_scratch(folder_);
  void* start = map_blocks(file, bytes);
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
