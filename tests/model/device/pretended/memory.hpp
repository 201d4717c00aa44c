// The memory of the pretended GPU. Its addresses are reserved and of nobody: whoever on the host
// reads or writes there, at whatever time, ends by SIGSEGV. The same bytes stand for the device's
// own work at other addresses, which host() tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace hanse::pretended {

class Memory {
 public:
  // Throws std::runtime_error when the system refuses.
  Memory();

  // Bytes that are all 1 (floating-point numbers are NaN), for graphs of `pool` (0: of none), whose
  // idle blocks are used first. Null: full.
  std::byte* take(std::size_t bytes, int64_t pool);
  // Throws std::runtime_error when something stands behind the block's end. A pool keeps its
  // blocks.
  void give(std::byte* block);
  // The pool's graphs are no more: its idle blocks are free, the others are when they are given
  // back.
  void release(int64_t pool);

  // Is it one of the device's addresses?
  bool has(const void* place) const;
  // Where the host has it; null has null.
  std::byte* host(const void* place) const;
  // The device's address of one of the host's, as by host(); null: it is none.
  std::byte* device(const void* place) const;

  struct Block {
    std::byte* first = nullptr;
    std::size_t bytes = 0, room = 0;  // asked for, and taken
    int64_t pool = 0;
    bool is_idle = false;  // of a pool
  };
  // The block that a place is in; null: it is in none.
  const Block* block_of(const void* place) const;

  // What the blocks take may not be more.
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_; }

 private:
  using Pool = std::multimap<std::size_t, std::byte*>;  // idle blocks by their room

  std::byte* take_idle(std::size_t room, int64_t pool);
  std::byte* take_free(std::size_t room);
  void make_free(std::byte* first, std::size_t room);

  std::byte *first_ = nullptr, *on_host_ = nullptr;
  std::size_t limit_, used_ = 0;
  std::map<std::byte*, std::size_t> free_;
  std::map<std::byte*, Block> blocks_;
  std::map<int64_t, Pool> pools_;
};

}  // namespace hanse::pretended
