// Working memory of a model: it grows with the batches and keeps its size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hanse {

// At least `size` values; returns the first. What stood there stays or not.
template <class Floats>
float* grow(Floats& buffer, int64_t size) {
  if (static_cast<int64_t>(buffer.size()) < size) buffer.resize(static_cast<std::size_t>(size));
  return buffer.data();
}

}  // namespace hanse
