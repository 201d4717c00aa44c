#include "hanse/comm/common_memory.hpp"

#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

namespace {

// An open file of memory, the same on all ranks of a host.
class MemoryFile {
 public:
  // Rank 0 makes it without a name; the others open it through /proc while rank 0 keeps it open.
  MemoryFile(Communicator& host, int64_t bytes) : bytes_(std::max<int64_t>(bytes, 1)) {
    int64_t address[2] = {getpid(), -1};
    agree_on(host, [&] {
      if (host.rank() == 0) create();
    });
    address[1] = file_;
    host.bcast(std::span(address), 0);
    agree_on(host, [&] {
      if (host.rank() == 0) return;
      const auto path = fmt::format("/proc/{}/fd/{}", address[0], address[1]);
      file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (file_ >= 0) return;
      throw IoError("cannot open the host's shared memory: " + errno_text(), path,
                    "the ranks of a host must run as one user and see each other's processes");
    });
  }
  ~MemoryFile() {
    if (file_ >= 0) close(file_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::shared_ptr<std::byte> map(Access access) const {
    auto memory = map_open_file(file_, bytes_, access);
    if (memory) return memory;
    throw IoError("cannot map shared memory: " + errno_text(), fmt::format("{} bytes", bytes_));
  }

 private:
  void create() {
    file_ = memfd_create("hanse", MFD_CLOEXEC);
    if (file_ >= 0 && reserve_blocks(file_, 0, bytes_)) return;
    throw IoError(
        fmt::format("no room for {} MiB of shared memory: {}", bytes_ >> 20, errno_text()),
        "rank 0 of a host", "use fewer samples or a host with more memory");
  }

  int64_t bytes_;
  int file_ = -1;
};

}  // namespace

std::shared_ptr<std::byte> share_memory(Communicator& host, int64_t bytes) {
  const MemoryFile file(host, bytes);
  std::shared_ptr<std::byte> memory;
  agree_on(host, [&] { memory = file.map(Access::kWrite); });
  return memory;
}

CommonMemory share_to_change(Communicator& host, int64_t bytes,
                             const std::function<void(std::byte*)>& fill) {
  const MemoryFile file(host, bytes);
  agree_on(host, [&] {
    if (host.rank() == 0) fill(file.map(Access::kWrite).get());
  });
  CommonMemory memory;
  agree_on(host, [&] { memory = {file.map(Access::kRead), file.map(Access::kCopy)}; });
  return memory;
}

}  // namespace hanse
