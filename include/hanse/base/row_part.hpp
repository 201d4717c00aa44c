// A part of a row of parameters: a layer, a tensor, a piece of work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace hanse {

// Values [begin, end) of a row.
struct RowPart {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

inline int64_t total_size(std::span<const RowPart> parts) {
  int64_t size = 0;
  for (const RowPart& part : parts) size += part.size();
  return size;
}

// Values that both have.
inline int64_t common_size(const RowPart& one, const RowPart& other) {
  return std::max<int64_t>(0, std::min(one.end, other.end) - std::max(one.begin, other.begin));
}

}  // namespace hanse
