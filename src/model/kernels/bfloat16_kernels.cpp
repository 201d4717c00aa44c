#include "bfloat16_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "bfloat16_tiles.hpp"
#include "vector_families.hpp"

#define HANSE_LOOPS "bfloat16_loops.inc"
#include "each_family.inc"

namespace hanse {

namespace {

#if defined(__x86_64__)

// A pair of panels, and as many rows as two tiles have.
void multiply_by_tiles(const Bfloat16Product& t) {
  alignas(64) float sums[kTileRows * 2 * kTileLine];
  const TilesInUse tiles;
  for (int64_t row = 0; row < t.m; row += 2 * kTileRows) {
    const int64_t rows = std::min(2 * kTileRows, t.m - row);
    tiles.configure(rows);
    const int64_t at_once = panels_at_once(rows);
    for (int64_t first = 0; first < t.n; first += at_once * kPanelColumns) {
      const int64_t columns = std::min(at_once * kPanelColumns, t.n - first);
      sum_tiles({.a = t.a, .b = t.b, .m = t.m, .blocks = blocks_of(t.k)}, row, rows,
                first / kPanelColumns, columns, sums);
      avx512::finish_sums(t, sums, kTileLine, rows, columns, t.c + row * t.c_line + first);
    }
  }
}

constexpr Bfloat16Kernels kAmx{avx512::pack_narrow_left, avx512::pack_narrow_left_transposed,
                               avx512::pack_right, avx512::pack_right_transposed,
                               multiply_by_tiles};

#endif

}  // namespace

const std::vector<ProductFamily>& product_families() {
  static const std::vector<ProductFamily> found = [] {
    std::vector<ProductFamily> all;
    if (has_avx512() && ask_for_tiles()) all.push_back(ProductFamily::kAmx);
    if (has_avx512()) all.push_back(ProductFamily::kAvx512);
    if (has_avx2()) all.push_back(ProductFamily::kAvx2);
    all.push_back(ProductFamily::kPlain);
    return all;
  }();
  return found;
}

ProductFamily product_family_of(std::optional<std::string_view> wanted) {
  const auto& all = product_families();
  if (!wanted || *wanted == "SapphireRapids") return all.front();
  const ProductFamily most = *wanted == "SkylakeX"  ? ProductFamily::kAvx512
                             : *wanted == "Haswell" ? ProductFamily::kAvx2
                                                    : ProductFamily::kPlain;
  return *std::find_if(all.begin(), all.end(), [&](ProductFamily f) { return f <= most; });
}

ProductFamily fastest_product_family() {
  static const ProductFamily fastest = [] {
    const char* wanted = std::getenv("HANSE_KERNELS");
    return product_family_of(wanted ? std::optional<std::string_view>(wanted) : std::nullopt);
  }();
  return fastest;
}

const char* name_of(ProductFamily family) {
  constexpr std::array kNames{"plain", "AVX2", "AVX-512", "AMX"};
  return kNames[static_cast<std::size_t>(family)];
}

const Bfloat16Kernels& bfloat16_kernels(ProductFamily family) {
#if defined(__x86_64__)
  if (family == ProductFamily::kAmx) return kAmx;
  if (family == ProductFamily::kAvx512) return avx512::kBfloat16;
  if (family == ProductFamily::kAvx2) return avx2::kBfloat16;
#endif
  return plain::kBfloat16;
}

}  // namespace hanse
