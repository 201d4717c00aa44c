// Memory of tensors that one pass after another makes anew.
#pragma once

#include <cstdint>
#include <memory>

namespace hanse {

// Keeps the blocks of freed tensors for the next ones: a pass of the same sizes as one before
// allocates nothing. Not for several threads at once.
class PassMemory {
 public:
  PassMemory();
  ~PassMemory();  // tensors that still live keep their blocks
  PassMemory(const PassMemory&) = delete;
  PassMemory& operator=(const PassMemory&) = delete;

  struct State;

  // While it lives, the tensors that this thread makes on the CPU take their memory from `memory`.
  // One may live within another.
  // Throws IoError from LibTorch's calls: a block is larger than what the process can have.
  class Use {
   public:
    explicit Use(PassMemory& memory);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    State* before_;  // what was in use, and is again
  };

  // Gives the blocks back that no tensor has.
  void trim();

  int64_t bytes() const;       // of all blocks, in use or not
  int64_t peak_bytes() const;  // of those in use at once so far
  int64_t blocks() const;      // allocated so far

 private:
  class Allocator;
  struct Block;
  static thread_local State* in_use;

  std::shared_ptr<State> state_;
};

}  // namespace hanse
