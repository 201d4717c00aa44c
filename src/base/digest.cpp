#include "hanse/base/digest.hpp"

#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

std::string hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

struct ReadOnlyFile {
  explicit ReadOnlyFile(const std::string& path)
      : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor < 0) throw IoError("cannot open the file: " + errno_text(), path);
  }
  ~ReadOnlyFile() { close(descriptor); }
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  int descriptor;
};

}  // namespace

std::string digest_hex(std::span<const std::byte> bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string file_digest_hex(const std::string& path, int64_t offset) {
  const ReadOnlyFile file(path);
  posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<std::byte> buffer(kBufferBytes);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (;;) {
    const ssize_t got = pread(file.descriptor, buffer.data(), buffer.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError("cannot read the file: " + errno_text(), path);
    if (got == 0) return hex(XXH3_128bits_digest(&state));
    XXH3_128bits_update(&state, buffer.data(), static_cast<std::size_t>(got));
    offset += got;
  }
}

}  // namespace hanse
