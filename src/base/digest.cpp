#include "hanse/base/digest.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

std::string hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string digest_hex(std::span<const std::byte> bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string file_digest_hex(const std::string& path, int64_t offset,
                            const std::vector<ByteRange>& without) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("cannot open the file: " + errno_text(), path);
  std::error_code code;
  const std::size_t bytes = std::filesystem::file_size(path, code);  // a large number when it fails
  std::vector<char> buffer(std::clamp<std::size_t>(bytes, 1, kBufferBytes));
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const auto add = [&](int64_t begin, int64_t end) {
    file.seekg(begin);
    while (file && begin < end) {
      file.read(buffer.data(), std::min<int64_t>(std::ssize(buffer), end - begin));
      if (file.bad()) throw IoError("cannot read the file: " + errno_text(), path);
      XXH3_128bits_update(&state, buffer.data(), static_cast<std::size_t>(file.gcount()));
      begin += file.gcount();
    }
  };
  for (const ByteRange& range : without) {
    add(offset, range.begin);
    offset = std::max(offset, range.end);
  }
  add(offset, INT64_MAX);
  return hex(XXH3_128bits_digest(&state));
}

}  // namespace hanse
