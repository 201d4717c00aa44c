// The directory of a zip file, read before anything of the file is unpacked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hanse {

struct ZipMember {
  std::string_view name;
  uint64_t method = 0;  // 0: stored, 8: deflated
  uint64_t packed = 0, unpacked = 0;
  uint64_t begin = 0;     // of its header in the file; its bytes follow
  uint64_t checksum = 0;  // CRC-32
};

// How messages name a file that is broken.
struct ZipSource {
  std::string path;
  std::string format;  // "TorchScript"
  std::string hint;
};

// The entries of the file's bytes, which must outlive them. Throws InvalidArgument: no zip file, or
// a directory that promises more than the file can hold at deflate's largest ratio.
// Cost: the directory is read.
std::vector<ZipMember> zip_directory(std::string_view bytes, const ZipSource& source);

// The entry's bytes as they are packed. Throws InvalidArgument: they do not lie in the file.
std::string_view packed_bytes(std::string_view bytes, const ZipMember& entry,
                              const ZipSource& source);

// Throws InvalidArgument as zip_directory() does, and when the file promises more than the memory.
void check_archive(const ZipSource& source);

}  // namespace hanse
