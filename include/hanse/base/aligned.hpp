// Arrays that start on a cache line.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace hanse {

// Vector kernels read whole lines: an array that starts in the middle of one costs two reads each.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};  // bytes

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}

  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* data, std::size_t) { ::operator delete(data, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
};

using AlignedFloats = std::vector<float, LineAllocator<float>>;

// n floats, and what is left of their last line: the distance of rows that all start on one.
template <class Integer>
constexpr Integer whole_lines(Integer n) {
  return (n + 15) / 16 * 16;
}

}  // namespace hanse
