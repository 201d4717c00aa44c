// Digests of arrays and files: XXH3-128 as 32 hexadecimal digits (as `xxhsum -H2` prints them).
// It finds accidental damage; it is no protection against a forger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hanse {

// Cost: about 10 GB/s.
std::string digest_hex(std::span<const std::byte> bytes);

// XXH3-64 with a seed.
uint64_t hash_of(std::span<const std::byte> bytes, uint64_t seed);

struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;  // exclusive
};

// Digest of a file's bytes from `offset` to its end, without those of some ascending ranges; equal
// to digest_hex of those bytes. Memory: one buffer of a few MiB. Throws IoError when the file
// cannot be read.
std::string file_digest_hex(const std::string& path, int64_t offset,
                            const std::vector<ByteRange>& without = {});

}  // namespace hanse
