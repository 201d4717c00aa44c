// Arrays that start on a cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace hanse {

inline constexpr std::size_t kLargePage = 2 << 20;  // bytes

// Asks for pages of 2 MiB, where the system has them: kernels that run through a large array look
// each of its pages up in a table of few places.
void use_large_pages(void* data, std::size_t bytes);
// Asks so for memory in use and for mapped files, at 0.3 ms a MiB.
void collect_large_pages(void* data, std::size_t bytes);

// Vector kernels read whole lines: an array that starts in the middle of one costs two reads each.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};  // bytes
  static constexpr std::size_t kLarge = 4 << 20;

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}

  T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    void* data = ::operator new(bytes, alignment(bytes));
    if (bytes >= kLarge) use_large_pages(data, bytes / kLargePage * kLargePage);
    return static_cast<T*>(data);
  }
  void deallocate(T* data, std::size_t n) { ::operator delete(data, alignment(n * sizeof(T))); }
  static std::align_val_t alignment(std::size_t bytes) {
    return bytes >= kLarge ? std::align_val_t{kLargePage} : kLine;
  }
  bool operator==(const LineAllocator&) const { return true; }
};

// Zeros that start on a cache line, as with LineAllocator.
std::shared_ptr<std::byte> zeroed_lines(int64_t bytes);

using AlignedFloats = std::vector<float, LineAllocator<float>>;

// n rounded up to whole cache lines of floats: the distance of rows that all start on a line.
template <class Integer>
constexpr Integer whole_lines(Integer n) {
  return (n + 15) / 16 * 16;
}

}  // namespace hanse
