#include "shared_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

namespace {

std::shared_ptr<std::byte> map_memory(int file, int64_t bytes) {
  const auto length = static_cast<std::size_t>(bytes);
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    throw IoError("cannot map shared memory: " + errno_text(), fmt::format("{} bytes", bytes));
  }
  return {static_cast<std::byte*>(memory), [length](std::byte* p) { munmap(p, length); }};
}

}  // namespace

// Rank 0 makes an unnamed memory file; the others open it through /proc while rank 0 keeps it open.
std::shared_ptr<std::byte> share_memory(Communicator& comm, int64_t bytes) {
  const int64_t length = std::max<int64_t>(bytes, 1);
  int file = -1;
  int64_t address[2] = {getpid(), -1};
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    file = memfd_create("hanse", MFD_CLOEXEC);
    const int code = file < 0 ? errno : posix_fallocate(file, 0, length);
    if (code == 0) return;
    if (file >= 0) close(file);
    throw IoError(
        fmt::format("no room for {} MiB of shared memory: {}", length >> 20, std::strerror(code)),
        "rank 0 of a host", "use fewer samples or a host with more memory");
  });
  address[1] = file;
  comm.bcast(std::span(address), 0);
  std::shared_ptr<std::byte> memory;
  agree_on(comm, [&] {
    if (comm.rank() != 0) {
      const auto path = fmt::format("/proc/{}/fd/{}", address[0], address[1]);
      file = open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (file < 0) {
        throw IoError("cannot open the host's shared memory: " + errno_text(), path,
                      "the ranks of a host must run as one user and see each other's processes");
      }
    }
    memory = map_memory(file, length);
  });
  close(file);
  return memory;
}

}  // namespace hanse
