// The gradient of an image behind whose 2x2 max pooling it has come: three of four values are
// zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hanse/base/aligned.hpp"

namespace hanse {

// That of the pooled image, and the place in each 2x2 that has it, 0 to 3. The others have zeros,
// and so have as many as the ReLU and the dropout behind the pooling have made.
struct PooledGradient {
  int64_t height, width;  // of the pooled image
  const float* d;         // [height, width, channels], read up to kReadAhead behind its end
  const int32_t* which;   // likewise
};

// Rows and vectors of a patch of x whose sums stay in the registers.
struct TileOfPatch {
  const float* x;
  int64_t x_row, line;
  int64_t at;         // of the patch in lines
  std::size_t shape;  // which of the family's tiles
};

// What the kernels on it work with, which grows.
struct PooledWork {
  struct Value {
    int32_t at;     // of its patch in x, floats
    uint32_t bits;  // of the value, a float
  };
  std::vector<Value> values;  // of a channel that are not zero
  std::vector<TileOfPatch> tiles;
  AlignedFloats sums;
  std::vector<uint64_t> masks;  // where values are
};

// Values that become a list, and the distances of their patches in x, floats.
struct PooledList {
  const PooledGradient& d;
  int64_t channels;
  int32_t pixel, row;
};

// Lists the values of a channel in rows [first, end) of the image, from the top left on, and
// returns the list's end; `to` and `below` have room for these rows and for one, and for a value
// more.
PooledWork::Value* list_values(const PooledList& of, int64_t channel, int64_t first, int64_t end,
                               PooledWork::Value* to, PooledWork::Value* below);

}  // namespace hanse
