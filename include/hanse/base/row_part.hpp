// A part of a row of parameters: a layer, a tensor, a piece of work.
#pragma once

#include <cstdint>

namespace hanse {

// Values [begin, end) of a row.
struct RowPart {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

}  // namespace hanse
