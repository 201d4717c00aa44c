// Products of matrices whose factors are bfloat16 numbers and whose sums are float32 ones, with one
// arithmetic on every x86 processor (src/README.md, "Products in bfloat16").
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "hanse/base/aligned.hpp"

namespace hanse {

// What computes them: the families of vector_families.hpp, AVX-512 with instructions that round to
// bfloat16, and the tiles of AMX.
enum class ProductFamily { kPlain, kAvx2, kAvx512, kAvx512Bfloat16, kAmx };

// The families that this process can run, the fastest first. AMX needs the system's permission,
// which the first call asks for.
const std::vector<ProductFamily>& product_families();

// The value of HANSE_KERNELS that stands for a family: Nehalem for the plain one, Haswell for AVX2,
// SkylakeX for AVX-512, Cooperlake for the same with BF16, SapphireRapids for AMX.
const char* kernels_value(ProductFamily family);

// The first of product_families() that `wanted`, a value of HANSE_KERNELS, allows; the plain one
// for other names.
ProductFamily product_family_of(std::optional<std::string_view> wanted);

// product_family_of() the environment's HANSE_KERNELS, as the first call finds it.
ProductFamily fastest_product_family();

const char* name_of(ProductFamily family);  // "AMX"

// Products that are summed before their sum is added to the others, and columns of a panel.
inline constexpr int64_t kBlockProducts = 32, kPanelColumns = 16;

// Parts of `count`, each of `most` or fewer.
inline int64_t parts_of(int64_t count, int64_t most) { return (count + most - 1) / most; }
inline int64_t blocks_of(int64_t k) { return parts_of(k, kBlockProducts); }

// Rows of a matrix in memory: `line` floats apart, or row r at from + at[r].
struct FactorRows {
  const float* from = nullptr;
  int64_t line = 0;
  const int64_t* at = nullptr;

  int64_t place(int64_t r) const { return at != nullptr ? at[r] : r * line; }
  const float* operator[](int64_t r) const { return from + place(r); }
};

// Memory that is read after a product, `count` rows of `n` floats: kernels fetch it meanwhile.
class ReadAhead {
 public:
  ReadAhead(FactorRows rows, int64_t count, int64_t n) : rows_(rows), count_(count), n_(n) {}

  // Cuts it into as many shares.
  void cut(int64_t shares) { share_ = parts_of(count_ * parts_of(n_, kLine), shares); }

  // Fetches the next share.
  void fetch() {
    for (int64_t i = 0; i < share_ && row_ < count_; ++i) {
      __builtin_prefetch(rows_[row_] + at_, 0, 2);
      at_ += kLine;
      if (at_ >= n_) at_ = 0, ++row_;
    }
  }

 private:
  static constexpr int64_t kLine = 16;  // floats of a line of memory

  FactorRows rows_;
  int64_t count_, n_;
  int64_t share_ = 0;         // lines of memory
  int64_t row_ = 0, at_ = 0;  // what is fetched next
};

// c [m, n] <- keep c + scale a b, a [m, k] and b [k, n] packed: fma(scale, a b, keep c) with one
// rounding of keep c and one of the sum. keep 0: the old values are never read; with a `start`, its
// row stands for each row of them.
struct Bfloat16Product {
  int64_t m, n, k;
  const float* a;     // [blocks][m][32]; AMX: bfloat16 values, else float32 ones
  const uint32_t* b;  // [panels][blocks][16 pairs][16 columns]; the even product's is the low half
  float* c;
  int64_t c_line;  // floats from row to row
  float scale = 1, keep = 0;
  const float* start = nullptr;  // [n]
  int64_t a_first = 0;           // a is the rows from here on of a packed matrix
  int64_t a_rows = 0;            // of that many; 0: m
  FactorRows columns{};  // instead of a, by ColumnFactor: value (r, k) is columns[k][r a_step]
  int64_t a_step = 1;
  ReadAhead* ahead = nullptr;  // null: nothing

  int64_t packed_rows() const { return a_rows > 0 ? a_rows : m; }
};

// The kernels of one family. Packing rounds to nearest even; whatever is behind k and n is 0.
struct Bfloat16Kernels {
  // a <- from [m, k]
  void (*pack_left)(FactorRows from, int64_t m, int64_t k, float* a);
  // b <- from [k, n], or the transpose of from [n, k].
  void (*pack_right)(FactorRows from, int64_t k, int64_t n, uint32_t* b);
  void (*pack_right_transposed)(FactorRows from, int64_t k, int64_t n, uint32_t* b);
  // A left factor may lie in memory as its columns, rows [k, m]. A family has one of these and no
  // other: `to` [n] is what n values round to, and products read columns in place; or a <- from.
  void (*round)(const float* from, int64_t n, float* to);
  void (*pack_left_transposed)(FactorRows from, int64_t m, int64_t k, float* a);
  // Cost: 2 m n k flops, and 2 additions a block. REQUIRES: the thread flushes subnormals
  // (FlushSubnormals).
  void (*multiply)(const Bfloat16Product& product);
};

const Bfloat16Kernels& bfloat16_kernels(ProductFamily family = fastest_product_family());

using PackedPairs = std::vector<uint32_t, LineAllocator<uint32_t>>;

// The floats that hold a packed left factor [m, k], in every family.
inline int64_t left_floats(int64_t m, int64_t k) { return blocks_of(k) * m * kBlockProducts; }

// Left factors whose columns lie in memory as rows, such as the deltas of a weight's gradient.
class ColumnFactor {
 public:
  // n values at `from` as put() takes them, until the next call: rounded, or as they are.
  const float* values(const Bfloat16Kernels& kernels, const float* from, int64_t n);

  // n rounded values, and `zeros` zeros behind them. REQUIRES: the kernels have round().
  const float* rounded(const Bfloat16Kernels& kernels, const float* from, int64_t n, int64_t zeros);

  // Makes `rows` [k, m], of values(), the left factor of a product, until the next call.
  void put(const Bfloat16Kernels& kernels, FactorRows rows, Bfloat16Product& product);

 private:
  AlignedFloats values_, packed_;
};

// The pairs of a packed right factor [k, n].
inline int64_t right_pairs(int64_t k, int64_t n) {
  return parts_of(n, kPanelColumns) * blocks_of(k) * kPanelColumns * kBlockProducts / 2;
}

}  // namespace hanse
