#include "hanse/base/digest.hpp"

#include <algorithm>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr int64_t kBufferBytes = int64_t{256} << 10;  // stays in the cache

std::string hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string digest_hex(std::span<const std::byte> bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

uint64_t hash_of(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string file_digest_hex(const std::string& path, int64_t offset,
                            const std::vector<ByteRange>& without) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("cannot open the file: " + errno_text(), path);
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const auto add = [&](int64_t begin, int64_t end) {
    file.seekg(begin);
    while (file && begin < end) {
      file.read(buffer.get(), std::min(kBufferBytes, end - begin));
      if (file.bad()) throw IoError("cannot read the file: " + errno_text(), path);
      XXH3_128bits_update(&state, buffer.get(), static_cast<std::size_t>(file.gcount()));
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
