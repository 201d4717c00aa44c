// Where the frozen values of samples are kept: memory of a host, or a mapped file that runs share.
//
// The file is, in this order:
//   4096 bytes          "hanse frozen 1 KEY BLOCKS BYTES" and a line's end, then zeros
//   8 bytes a block     hash_of() its values, seeded by its number, 2 for less; 0: it is not there;
//                       1: somebody writes it
//   zeros               up to a multiple of 4096
//   BYTES a block       its values
// In memory there are no first 4096 bytes. A block counts when its hash is that of its values. So a
// disk that loses a page and a host that sees half of another's writes cost a block, which is
// computed again. Who opens the file takes the blocks that a process began to write and did not
// finish; if it still lives, both write the same bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"

namespace hanse {

class FrozenStore {
 public:
  // Blocks of so many bytes.
  struct Shape {
    int64_t blocks = 0;
    int64_t block_bytes = 0;

    int64_t bytes() const;  // of all, with their hashes
  };

  // In the memory of a host. Collective over its ranks. Throws AgreedError: there is no room.
  static FrozenStore in_memory(Communicator& host, const Shape& shape);
  // In the file of that key in `folder`, which is made unless it is there; another file of that
  // name is replaced, with a warning. Collective over the ranks of a host. Throws AgreedError: the
  // folder cannot be written, or its disk is full.
  static FrozenStore in_file(Communicator& host, const std::string& folder, const std::string& key,
                             const Shape& shape);

  // The block's values; null: it is not there. `block_bytes` of the shape.
  const float* find(int64_t block);
  // Keeps them, and returns where they lie from now on; `values`: somebody else writes this block.
  const float* put(int64_t block, const float* values);
  // The file's path; empty: memory.
  const std::string& path() const { return path_; }

 private:
  FrozenStore(std::shared_ptr<std::byte> memory, int64_t first, const Shape& shape,
              std::string path);

  std::atomic_ref<uint64_t> state_of(int64_t block) const;
  uint64_t hash(int64_t block) const;
  void free_begun();
  std::span<std::byte> values_of(int64_t block) const;

  std::shared_ptr<std::byte> memory_;
  Shape shape_;
  std::string path_;
  uint64_t* hashes_;           // [blocks] in memory_
  std::byte* values_;          // [blocks, block_bytes] in memory_
  std::vector<char> is_seen_;  // [blocks] their hashes were found right
  bool has_warned_ = false;
};

}  // namespace hanse
