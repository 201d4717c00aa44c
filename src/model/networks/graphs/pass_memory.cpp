#include "networks/graphs/pass_memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr int64_t kLine = 64;        // bytes: a processor's line, at which blocks begin
constexpr int64_t kSmallLines = 64;  // of a small block, at most

}  // namespace

// What stands before the memory of a tensor: LibTorch gives back no more than its address.
struct alignas(kLine) PassMemory::Block {
  int64_t bytes;                 // behind it
  std::shared_ptr<State> owner;  // while a tensor has it; none: no pass made it

  void* memory() { return this + 1; }
  static Block* of(void* memory) { return static_cast<Block*>(memory) - 1; }

  static Block* made(int64_t bytes) {
    void* const place =
        c10::GetDefaultCPUAllocator()->raw_allocate(sizeof(Block) + to_index(bytes));
    return new (place) Block{bytes, nullptr};
  }
  static void destroy(Block* block) {
    block->~Block();
    c10::GetDefaultCPUAllocator()->raw_deallocate(block);
  }
  static void give_back(void* memory);
};

struct PassMemory::State : std::enable_shared_from_this<State> {
  std::array<std::vector<Block*>, to_index(kSmallLines) + 1> small;  // free ones, by their lines
  std::multimap<int64_t, Block*> large;                              // free ones, by their bytes
  int64_t bytes = 0, used = 0, peak = 0, blocks = 0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { destroy_free(); }

  void destroy_free() {
    for_each_free(Block::destroy);
    for (auto& free : small) free.clear();
    large.clear();
  }

  template <class F>
  void for_each_free(F f) const {
    for (const auto& free : small) std::ranges::for_each(free, f);
    for (const auto& [size, block] : large) f(block);
  }

  void give_back(Block* block) {
    used -= block->bytes;
    const int64_t lines = block->bytes / kLine;
    if (lines <= kSmallLines) {
      small[to_index(lines)].push_back(block);
    } else {
      large.emplace(block->bytes, block);
    }
  }

  // A small block of that size, the smallest of the large ones that hold so much; null: none.
  Block* find(int64_t size) {
    if (size <= kSmallLines * kLine) {
      auto& free = small[to_index(size / kLine)];
      if (free.empty()) return nullptr;
      Block* const block = free.back();
      free.pop_back();
      return block;
    }
    const auto found = large.lower_bound(size);
    if (found == large.end()) return nullptr;
    Block* const block = found->second;
    large.erase(found);
    return block;
  }

  // A free block that holds so many bytes, or a new one.
  Block* take(int64_t size) {
    const int64_t rounded = (size + kLine - 1) / kLine * kLine;
    Block* block = find(rounded);
    if (block == nullptr) {
      require_memory(rounded, "a tensor of the network takes", "model.path", "");
      block = Block::made(rounded);
      bytes += rounded;
      ++blocks;
    }
    used += block->bytes;
    peak = std::max(peak, used);
    block->owner = shared_from_this();
    return block;
  }
};

void PassMemory::Block::give_back(void* memory) {
  if (memory == nullptr) return;
  Block* const block = of(memory);
  const std::shared_ptr<State> owner = std::move(block->owner);
  if (!owner) return destroy(block);
  owner->give_back(block);
}

thread_local PassMemory::State* PassMemory::in_use = nullptr;

// LibTorch's allocator from the first pass on. The functions override those of LibTorch 1.13 or of
// 2, which differ in their qualifiers.
class PassMemory::Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const { return made(static_cast<int64_t>(bytes)); }
  c10::DataPtr allocate(std::size_t bytes) { return made(static_cast<int64_t>(bytes)); }
  c10::DeleterFnPtr raw_deleter() const override { return Block::give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  static c10::DataPtr made(int64_t bytes) {
    const c10::Device cpu(c10::kCPU);
    if (bytes == 0) return {nullptr, nullptr, Block::give_back, cpu};
    Block* const block = in_use != nullptr ? in_use->take(bytes) : Block::made(bytes);
    return {block->memory(), block->memory(), Block::give_back, cpu};
  }
};

PassMemory::PassMemory() : state_(std::make_shared<State>()) {
  static Allocator allocator;
  static const bool is_set = [] {
    constexpr uint8_t kAboveDefault = 1;
    c10::SetCPUAllocator(&allocator, kAboveDefault);
    return true;
  }();
  static_cast<void>(is_set);
}

PassMemory::~PassMemory() { trim(); }

PassMemory::Use::Use(PassMemory& memory) : before_(in_use) { in_use = memory.state_.get(); }
PassMemory::Use::~Use() { in_use = before_; }

void PassMemory::trim() {
  state_->for_each_free([this](const Block* block) { state_->bytes -= block->bytes; });
  state_->destroy_free();
}

int64_t PassMemory::bytes() const { return state_->bytes; }
int64_t PassMemory::peak_bytes() const { return state_->peak; }
int64_t PassMemory::blocks() const { return state_->blocks; }

}  // namespace hanse
