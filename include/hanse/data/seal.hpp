// The first bytes of our own HDF5 files, which HDF5 leaves to the writer. They describe the rest,
// to be checked before the library reads it: a text of three or four lines, filled up with zeros:
//   HANSE-CHECKPOINT 1        magic word and version
//   bytes 27014               length of the file
//   xxh3 0123...              digest of everything behind the seal
//   without 4096 8192 ...     but these ranges, begin and end, where there are any
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hanse/base/digest.hpp"

namespace hanse {

constexpr int64_t kSealBytes = 512;

struct SealKind {
  std::string magic;
  int64_t version = 1;
};
inline const SealKind kCheckpointSeal = {"HANSE-CHECKPOINT"};
inline const SealKind kDataSeal = {"HANSE-DATA"};
inline const SealKind kModelSeal = {"HANSE-MODEL"};

// The seal of a file whose first kSealBytes are still free. Throws IoError when it cannot be read.
std::string seal_of(const std::string& path, const SealKind& kind,
                    const std::vector<ByteRange>& without = {});

// The fault of the seal itself or of the file's length; else nothing. Cost: reads one block.
std::optional<std::string> seal_fault(const std::string& path, const SealKind& kind);

// seal_damage(), or nothing for a file without a seal.
std::optional<std::string> damage_if_sealed(const std::string& path, const SealKind& kind);

// seal_fault(), or the damage of the contents. Cost: reads all sealed bytes once.
std::optional<std::string> seal_damage(const std::string& path, const SealKind& kind);

}  // namespace hanse
