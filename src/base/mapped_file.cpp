#include "hanse/base/mapped_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hanse/base/aligned.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr std::size_t kLeastInFile = 1 << 20;  // bytes; smaller parts stay in memory

// A place where a mapping could start with a large page; the system may choose another.
void* room_for(std::size_t bytes) {
  void* room = mmap(nullptr, bytes + kLargePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  munmap(room, bytes + kLargePage);
  const auto address = reinterpret_cast<std::uintptr_t>(room);
  return reinterpret_cast<void*>((address + kLargePage - 1) / kLargePage * kLargePage);
}

}  // namespace

std::shared_ptr<std::byte> map_open_file(int file, int64_t bytes, Access access) {
  const auto length = static_cast<std::size_t>(bytes);
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  const int sharing = access == Access::kCopy ? MAP_PRIVATE : MAP_SHARED;
  void* start = mmap(room_for(length), length, protection, sharing, file, 0);
  if (start == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(start), [length](std::byte* p) { munmap(p, length); }};
}

std::shared_ptr<std::byte> map_file(const std::string& path, int64_t bytes, Access access) {
  const int file = open(path.c_str(), (access == Access::kWrite ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (file < 0) throw IoError("cannot open the file: " + errno_text(), path);
  auto memory = map_open_file(file, bytes, access);
  const std::string why = errno_text();
  close(file);
  if (!memory) throw IoError("cannot map the file: " + why, path);
  return memory;
}

int open_unnamed_file(const std::string& folder, const std::string& what) {
  std::string path = folder + "/hanse-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) throw IoError("cannot create " + what + ": " + errno_text(), folder);
  unlink(path.c_str());
  return file;
}

bool reserve_blocks(int file, int64_t begin, int64_t bytes) {
  int code = 0;
  do {
    code = posix_fallocate(file, begin, bytes);
  } while (code == EINTR);
  errno = code;
  return code == 0;
}

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
