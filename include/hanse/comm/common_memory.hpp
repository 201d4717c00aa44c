// Memory that the ranks of a host share. It has no name in a file system: a killed run leaves
// nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Communicator::allocate_shared() over the processes of one host. Collective.
std::shared_ptr<std::byte> share_memory(Communicator& host, int64_t bytes);

// A zeroed row for each rank, one behind the other, in memory that all ranks of a host see.
struct RankRows {
  std::shared_ptr<std::byte> memory;
  int64_t stride = 0;  // bytes from one to the next

  std::byte* of(int rank) const { return memory.get() + rank * stride; }
};

// Makes rows of `bytes` bytes; each lies in the memory of its rank's processor. Collective over the
// ranks of one host. Throws AgreedError when there is no room.
RankRows share_rows(Communicator& host, int64_t bytes);

// Bytes that all ranks start from, and each rank's own changes of them.
struct CommonMemory {
  // Who writes to it changes them for all ranks, but for the pages that have become a rank's own.
  std::shared_ptr<std::byte> common;
  // Starts with the same bytes. A page that this rank writes to becomes its own; the others cost it
  // nothing.
  std::shared_ptr<std::byte> own;
};

// Memory of `bytes` bytes, which `fill` writes on the first rank; all ranks throw what it throws.
// Collective over the ranks of one host. Throws AgreedError when there is no room.
CommonMemory share_to_change(Communicator& host, int64_t bytes,
                             const std::function<void(std::byte*)>& fill);

struct MemoryPart {
  int64_t begin, size;
};
// The same of these parts alone: the pages between them take no memory while nobody reads them.
CommonMemory share_parts_to_change(Communicator& host, int64_t bytes,
                                   std::span<const MemoryPart> parts,
                                   const std::function<void(std::byte*)>& fill);

}  // namespace hanse
