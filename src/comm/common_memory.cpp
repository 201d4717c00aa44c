#include "hanse/comm/common_memory.hpp"

#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hanse/base/aligned.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

namespace {

// An open file of memory, the same on all ranks of a host.
class MemoryFile {
 public:
  // Rank 0 makes it without a name; the others open it through /proc while rank 0 keeps it open.
  // Its memory is reserved at once, or each rank reserves its own part.
  MemoryFile(Communicator& host, int64_t bytes, bool in_parts = false)
      : bytes_(std::max<int64_t>(bytes, 1)) {
    int64_t address[2] = {getpid(), -1};
    agree_on(host, [&] {
      if (host.rank() == 0) create(in_parts);
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

  void reserve(int64_t begin, int64_t bytes) const {
    if (!reserve_blocks(file_, begin, bytes)) refuse(bytes);
  }

 private:
  void create(bool in_parts) {
    file_ = memfd_create("hanse", MFD_CLOEXEC);
    if (file_ < 0 || (in_parts && ftruncate(file_, bytes_) != 0)) refuse(bytes_);
    if (!in_parts) reserve(0, bytes_);
  }

  [[noreturn]] static void refuse(int64_t bytes) {
    throw IoError(fmt::format("no room for {} MiB of shared memory: {}", bytes >> 20, errno_text()),
                  "a rank of this host", "use fewer samples or a host with more memory");
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

RankRows share_rows(Communicator& host, int64_t bytes) {
  constexpr auto kPage = static_cast<int64_t>(kLargePage);
  RankRows rows;
  rows.stride = (bytes + kPage - 1) / kPage * kPage;
  const MemoryFile file(host, rows.stride * host.size(), /*in_parts=*/true);
  agree_on(host, [&] {
    file.reserve(rows.stride * host.rank(), bytes);
    rows.memory = file.map(Access::kWrite);
    collect_large_pages(rows.of(host.rank()), static_cast<std::size_t>(bytes / kPage * kPage));
  });
  return rows;
}

namespace {

CommonMemory filled(Communicator& host, const MemoryFile& file, std::span<const MemoryPart> parts,
                    const std::function<void(std::byte*)>& fill) {
  agree_on(host, [&] {
    if (host.rank() != 0) return;
    for (const MemoryPart& part : parts) file.reserve(part.begin, part.size);
    fill(file.map(Access::kWrite).get());
  });
  CommonMemory memory;
  agree_on(host, [&] { memory = {file.map(Access::kWrite), file.map(Access::kCopy)}; });
  return memory;
}

}  // namespace

CommonMemory share_to_change(Communicator& host, int64_t bytes,
                             const std::function<void(std::byte*)>& fill) {
  return filled(host, MemoryFile(host, bytes), {}, fill);
}

CommonMemory share_parts_to_change(Communicator& host, int64_t bytes,
                                   std::span<const MemoryPart> parts,
                                   const std::function<void(std::byte*)>& fill) {
  return filled(host, MemoryFile(host, bytes, /*in_parts=*/true), parts, fill);
}

}  // namespace hanse
