#include "model/device/pretended/memory.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

namespace hanse::pretended {

namespace {

constexpr std::size_t kBytes = std::size_t{1} << 32;  // of addresses; pages come when they are used
constexpr std::size_t kStep = 512;                    // of addresses, as LibTorch's CUDA allocator
constexpr std::size_t kBehind = 64;                   // bytes that nobody writes, at least
constexpr int kUntouched = 0xff;

}  // namespace

Memory::Memory() : limit_(kBytes) {
  const int file = memfd_create("pretended GPU", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kBytes) != 0) {
    throw std::runtime_error("the pretended GPU gets no memory");
  }
  void* const own = mmap(nullptr, kBytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* const host =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (own == MAP_FAILED || host == MAP_FAILED) {
    throw std::runtime_error("the pretended GPU gets no addresses");
  }
  first_ = static_cast<std::byte*>(own);
  on_host_ = static_cast<std::byte*>(host);
  free_[first_] = kBytes;
}

bool Memory::has(const void* place) const {
  const auto* at = static_cast<const std::byte*>(place);
  return at >= first_ && at < first_ + kBytes;
}

std::byte* Memory::host(const void* place) const {
  if (place == nullptr) return nullptr;
  return on_host_ + (static_cast<const std::byte*>(place) - first_);
}

std::byte* Memory::device(const void* place) const {
  const auto* at = static_cast<const std::byte*>(place);
  return at >= on_host_ && at < on_host_ + kBytes ? first_ + (at - on_host_) : nullptr;
}

const Memory::Block* Memory::block_of(const void* place) const {
  auto* at = static_cast<std::byte*>(const_cast<void*>(place));
  const auto behind = blocks_.upper_bound(at);
  if (behind == blocks_.begin()) return nullptr;
  const Block& block = std::prev(behind)->second;
  return at <= block.first + block.bytes ? &block : nullptr;
}

std::byte* Memory::take(std::size_t bytes, int64_t pool) {
  const std::size_t room = (bytes + kBehind + kStep - 1) / kStep * kStep;
  std::byte* first = pool > 0 ? take_idle(room, pool) : nullptr;
  if (first == nullptr) {
    if (used_ + room > limit_) return nullptr;
    first = take_free(room);
    if (first == nullptr) return nullptr;
    used_ += room;
    blocks_[first] = {.first = first, .room = room, .pool = pool};
  }
  Block& block = blocks_.at(first);
  block.bytes = bytes;
  block.is_idle = false;
  std::memset(host(first), kUntouched, block.room);
  return first;
}

std::byte* Memory::take_idle(std::size_t room, int64_t pool) {
  Pool& idle = pools_[pool];
  const auto found = idle.lower_bound(room);
  if (found == idle.end()) return nullptr;
  std::byte* const first = found->second;
  idle.erase(found);
  return first;
}

std::byte* Memory::take_free(std::size_t room) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < room) continue;
    const auto [first, size] = *it;
    free_.erase(it);
    if (size > room) free_[first + room] = size - room;
    return first;
  }
  return nullptr;
}

void Memory::give(std::byte* first) {
  Block& block = blocks_.at(first);
  const std::byte* const end = host(first) + block.room;
  const bool is_whole = std::all_of(host(first) + block.bytes, const_cast<std::byte*>(end),
                                    [](std::byte one) { return one == std::byte{kUntouched}; });
  if (block.pool > 0) {
    block.is_idle = true;
    pools_[block.pool].emplace(block.room, first);
  } else {
    make_free(first, block.room);
    blocks_.erase(first);
  }
  if (!is_whole)
    throw std::runtime_error("the pretended GPU: something wrote behind a tensor's end");
}

void Memory::make_free(std::byte* first, std::size_t room) {
  used_ -= room;
  auto it = free_.emplace(first, room).first;
  if (const auto next = std::next(it); next != free_.end() && first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  if (const auto before = std::prev(it); before->first + before->second == first) {
    before->second += it->second;
    free_.erase(it);
  }
}

void Memory::release(int64_t pool) {
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    Block& block = it->second;
    if (block.pool == pool) block.pool = 0;
    const bool is_free = block.is_idle && block.pool == 0;
    if (is_free) make_free(block.first, block.room);
    it = is_free ? blocks_.erase(it) : std::next(it);
  }
  pools_.erase(pool);
}

}  // namespace hanse::pretended
