#include "bfloat16_tiles.hpp"

#include <algorithm>
#include <cstddef>

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HANSE_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace hanse {

namespace {

constexpr std::size_t kTileBytes = 1024, kLineBytes = 64;

struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int64_t n_rows) {
    row_bytes[tile] = kLineBytes;
    rows[tile] = static_cast<uint8_t>(n_rows);
  }
};

bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBfloat16 = 1U << 22, kTile = 1U << 24;
  return (d & kBfloat16) != 0 && (d & kTile) != 0;
}

// The part of tile T's operand or sums.
inline const char* at(const void* from, int64_t tile) {
  return static_cast<const char*>(from) + tile * static_cast<int64_t>(kTileBytes);
}

// Makes stores to memory happen before the tiles read it: compilers see a read of 8 bytes at most.
inline void keep_stores() { __asm__ volatile("" ::: "memory"); }

// Tiles 0 to 3 are the sums of rows by panels; 4 and 5 hold rows, 6 and 7 panels.
HANSE_AMX void sum_two_by_two(const char* a, int64_t a_block, const char* b0, const char* b1,
                              int64_t blocks, float* sums) {
  constexpr std::size_t kSumsBytes = kTileLine * sizeof(float);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t block = 0; block < blocks; ++block) {
    _tile_loadd(4, a, kLineBytes);
    _tile_loadd(6, b0, kLineBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b1, kLineBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTileBytes, kLineBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a += a_block;
    b0 += kTileBytes;
    b1 += kTileBytes;
  }
  _tile_stored(0, sums, kSumsBytes);
  _tile_stored(1, sums + kTileRows, kSumsBytes);
  _tile_stored(2, sums + kTileRows * kTileLine, kSumsBytes);
  _tile_stored(3, sums + kTileRows * kTileLine + kTileRows, kSumsBytes);
}

// Tile 4 holds rows, 5 to 7 panels.
HANSE_AMX void sum_one_by_four(const char* a, int64_t a_block, const char* const (&panels)[4],
                               int64_t blocks, float* sums) {
  constexpr std::size_t kSumsBytes = kTileLine * sizeof(float);
  const char *b0 = panels[0], *b1 = panels[1], *b2 = panels[2], *b3 = panels[3];
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t block = 0; block < blocks; ++block) {
    _tile_loadd(4, a, kLineBytes);
    _tile_loadd(5, b0, kLineBytes);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, b1, kLineBytes);
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(7, b2, kLineBytes);
    _tile_dpbf16ps(2, 4, 7);
    _tile_loadd(5, b3, kLineBytes);
    _tile_dpbf16ps(3, 4, 5);
    a += a_block;
    b0 += kTileBytes;
    b1 += kTileBytes;
    b2 += kTileBytes;
    b3 += kTileBytes;
  }
  _tile_stored(0, sums, kSumsBytes);
  _tile_stored(1, sums + kTileRows, kSumsBytes);
  _tile_stored(2, sums + 2 * kTileRows, kSumsBytes);
  _tile_stored(3, sums + 3 * kTileRows, kSumsBytes);
}

HANSE_AMX void load_shapes(const TileShapes& shapes) {
  keep_stores();
  _tile_loadconfig(&shapes);
}
HANSE_AMX void release_tiles() { _tile_release(); }

}  // namespace

bool ask_for_tiles() {
  static const bool granted = [] {
    constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return has_tiles() && syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
  }();
  return granted;
}

TilesInUse::~TilesInUse() { release_tiles(); }

void TilesInUse::configure(int64_t rows) const {
  TileShapes shapes;
  const int64_t first = std::min(rows, kTileRows), second = rows - first;
  if (second > 0) {
    for (const int tile : {0, 1, 4}) shapes.set(tile, first);
    for (const int tile : {2, 3, 5}) shapes.set(tile, second);
    for (const int tile : {6, 7}) shapes.set(tile, kTileRows);
  } else {
    for (const int tile : {0, 1, 2, 3, 4}) shapes.set(tile, first);
    for (const int tile : {5, 6, 7}) shapes.set(tile, kTileRows);
  }
  load_shapes(shapes);
}

void sum_tiles(const TileFactors& f, int64_t row, int64_t rows, int64_t panel, int64_t columns,
               float* sums) {
  keep_stores();
  const char* a = static_cast<const char*>(f.a) + row * static_cast<int64_t>(kLineBytes);
  const int64_t a_block = f.m * static_cast<int64_t>(kLineBytes);
  const int64_t last = panel + (columns - 1) / kTileRows;  // sums of panels behind it are not used
  const auto panel_at = [&](int64_t i) { return at(f.b, std::min(panel + i, last) * f.blocks); };
  if (rows > kTileRows) {
    return sum_two_by_two(a, a_block, panel_at(0), panel_at(1), f.blocks, sums);
  }
  sum_one_by_four(a, a_block, {panel_at(0), panel_at(1), panel_at(2), panel_at(3)}, f.blocks, sums);
}

}  // namespace hanse

#else

namespace hanse {

bool ask_for_tiles() { return false; }
TilesInUse::~TilesInUse() = default;
void TilesInUse::configure(int64_t) const {}
void sum_tiles(const TileFactors&, int64_t, int64_t, int64_t, int64_t, float*) {}

}  // namespace hanse

#endif
