#include "bfloat16_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "bfloat16_tiles.hpp"
#include "layer_kernels.hpp"
#include "vector_families.hpp"

#define HANSE_LOOPS "bfloat16_loops.inc"
#include "each_family.inc"

#if defined(__x86_64__)

namespace hanse::avx512 {

// Few columns fill half a vector better.
inline void multiply_any(const Bfloat16Product& t) {
  return (t.n <= avx2::kLanes ? avx2::multiply_packed : multiply_packed)(t);
}
constexpr Bfloat16Kernels kAnyBfloat16 = [] {
  Bfloat16Kernels kernels = kBfloat16;
  kernels.multiply = multiply_any;
  return kernels;
}();

}  // namespace hanse::avx512

// AVX-512 with instructions that round as bfloat16_loops.inc does.
namespace hanse::avx512_bfloat16 {
#define HANSE_FAMILY __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
using avx512::broadcast;
using avx512::Ints;
using avx512::kLanes;
using avx512::kPairs;
using avx512::load;
using avx512::load_up_to;
using avx512::store;
using avx512::store_up_to;
using avx512::transpose_block;
using avx512::Vector;

HANSE_FAMILY HANSE_INLINE Ints rounded(Vector v) {
  const auto halves = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(v));
  return __builtin_bit_cast(Ints, _mm512_maskz_cvtepu16_epi32(0xffff, halves)) << 16;
}

HANSE_FAMILY HANSE_INLINE Ints rounded_pairs(Vector even, Vector odd) {
  alignas(64) static constexpr uint16_t kPlaces[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                     21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                     11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto halves = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(odd, even));
  return __builtin_bit_cast(Ints, _mm512_permutexvar_epi16(_mm512_load_si512(kPlaces), halves));
}

HANSE_FAMILY HANSE_INLINE void narrow(const float* from, void* to) {
  const auto halves = _mm512_cvtne2ps_pbh(load(from + kLanes), load(from));
  _mm512_storeu_si512(to, __builtin_bit_cast(__m512i, halves));
}

#include "bfloat16_packing.inc"
#undef HANSE_FAMILY
}  // namespace hanse::avx512_bfloat16

#endif

namespace hanse {

namespace {

#if defined(__x86_64__)

constexpr Bfloat16Kernels kAvx512Bfloat16{
    .pack_left = avx512_bfloat16::pack_left,
    .pack_right = avx512_bfloat16::pack_right,
    .pack_right_transposed = avx512_bfloat16::pack_right_transposed,
    .round = avx512_bfloat16::round_values,
    .multiply = avx512::multiply_any};

bool has_conversion() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

// A pair of panels, and as many rows as two tiles have.
void multiply_by_tiles(const Bfloat16Product& t) {
  alignas(64) float sums[kTileRows * 2 * kTileLine];
  const TilesInUse tiles;
  int64_t configured = 0;
  if (t.ahead != nullptr) {
    const int64_t columns = panels_at_once(t.m) * kPanelColumns;
    t.ahead->cut(parts_of(t.m, 2 * kTileRows) * parts_of(t.n, columns));
  }
  for (int64_t row = 0; row < t.m; row += 2 * kTileRows) {
    const int64_t rows = std::min(2 * kTileRows, t.m - row);
    if (rows != configured) tiles.configure(configured = rows);
    const int64_t at_once = panels_at_once(rows);
    for (int64_t first = 0; first < t.n; first += at_once * kPanelColumns) {
      const int64_t columns = std::min(at_once * kPanelColumns, t.n - first);
      if (t.ahead != nullptr) t.ahead->fetch();
      sum_tiles({.a = t.a, .b = t.b, .m = t.packed_rows(), .blocks = blocks_of(t.k)},
                t.a_first + row, rows, first / kPanelColumns, columns, sums);
      avx512::finish_sums(t, sums, kTileLine, rows, first, columns, t.c + row * t.c_line + first);
    }
  }
}

constexpr Bfloat16Kernels kAmx{.pack_left = avx512_bfloat16::pack_narrow_left,
                               .pack_right = avx512_bfloat16::pack_right,
                               .pack_right_transposed = avx512_bfloat16::pack_right_transposed,
                               .pack_left_transposed = avx512_bfloat16::pack_narrow_left_transposed,
                               .multiply = multiply_by_tiles};

#else

bool has_conversion() { return false; }

#endif

}  // namespace

const float* ColumnFactor::values(const Bfloat16Kernels& kernels, const float* from, int64_t n) {
  return kernels.round == nullptr ? from : rounded(kernels, from, n, 0);
}

const float* ColumnFactor::rounded(const Bfloat16Kernels& kernels, const float* from, int64_t n,
                                   int64_t zeros) {
  float* to = grow(values_, n + zeros);
  kernels.round(from, n, to);
  std::fill_n(to + n, zeros, 0.0F);
  return to;
}

void ColumnFactor::put(const Bfloat16Kernels& kernels, FactorRows rows, Bfloat16Product& product) {
  if (kernels.round != nullptr) {
    product.columns = rows;
    return;
  }
  float* packed = grow(packed_, left_floats(product.m, product.k));
  kernels.pack_left_transposed(rows, product.m, product.k, packed);
  product.a = packed;
}

const std::vector<ProductFamily>& product_families() {
  static const std::vector<ProductFamily> found = [] {
    std::vector<ProductFamily> all;
    if (has_conversion() && ask_for_tiles()) all.push_back(ProductFamily::kAmx);
    if (has_conversion()) all.push_back(ProductFamily::kAvx512Bfloat16);
    if (has_avx512()) all.push_back(ProductFamily::kAvx512);
    if (has_avx2()) all.push_back(ProductFamily::kAvx2);
    all.push_back(ProductFamily::kPlain);
    return all;
  }();
  return found;
}

ProductFamily product_family_of(std::optional<std::string_view> wanted) {
  const auto& all = product_families();
  if (!wanted) return all.front();
  auto most = ProductFamily::kAmx;
  while (most > ProductFamily::kPlain && *wanted != kernels_value(most)) {
    most = static_cast<ProductFamily>(static_cast<int>(most) - 1);
  }
  return *std::find_if(all.begin(), all.end(), [&](ProductFamily f) { return f <= most; });
}

const char* kernels_value(ProductFamily family) {
  constexpr std::array kValues{"Nehalem", "Haswell", "SkylakeX", "Cooperlake", "SapphireRapids"};
  return kValues[static_cast<std::size_t>(family)];
}

ProductFamily fastest_product_family() {
  static const ProductFamily fastest = [] {
    const char* wanted = std::getenv("HANSE_KERNELS");
    return product_family_of(wanted ? std::optional<std::string_view>(wanted) : std::nullopt);
  }();
  return fastest;
}

const char* name_of(ProductFamily family) {
  constexpr std::array kNames{"plain", "AVX2", "AVX-512", "AVX-512 BF16", "AMX"};
  return kNames[static_cast<std::size_t>(family)];
}

const Bfloat16Kernels& bfloat16_kernels(ProductFamily family) {
#if defined(__x86_64__)
  if (family == ProductFamily::kAmx) return kAmx;
  if (family == ProductFamily::kAvx512Bfloat16) return kAvx512Bfloat16;
  if (family == ProductFamily::kAvx512) return avx512::kAnyBfloat16;
  if (family == ProductFamily::kAvx2) return avx2::kBfloat16;
#endif
  return plain::kBfloat16;
}

}  // namespace hanse
