// Sums of products in bfloat16 by the tiles of AMX (Intel's Software Developer's Manual,
// TDPBF16PS).
#pragma once

#include <cstdint>

namespace hanse {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileLine = 64;  // floats of a row of the sums: four panels

// Has this processor AMX for bfloat16, and does the system let this process use it? The first call
// asks; the answer holds for all threads.
bool ask_for_tiles();

// The tiles are this thread's while it lives. They are not kept across another one's life.
class TilesInUse {
 public:
  TilesInUse() = default;
  ~TilesInUse();
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;

  // For sums of `rows` rows, at most two tiles of them.
  void configure(int64_t rows) const;
};

// Panels whose sums of `rows` rows are made at once: four tiles of sums hide an operation's time.
inline int64_t panels_at_once(int64_t rows) { return rows > kTileRows ? 2 : 4; }

// Packed factors, as Bfloat16Product has them.
struct TileFactors {
  const void* a;
  const void* b;
  int64_t m, blocks;
};

// sums [rows, kTileLine] <- of the rows from `row` on with the columns from the panel on, of which
// there are panels_at_once() or fewer. REQUIRES: configured for so many rows.
void sum_tiles(const TileFactors& f, int64_t row, int64_t rows, int64_t panel, int64_t columns,
               float* sums);

}  // namespace hanse
