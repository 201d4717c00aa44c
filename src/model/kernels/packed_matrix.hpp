// A weight that is multiplied with few rows many times.
#pragma once

#include <cstdint>

#include "bfloat16_kernels.hpp"
#include "convolution_kernels.hpp"
#include "hanse/base/aligned.hpp"

namespace hanse {

// A matrix M [k, n], kept as panels of 32 columns: [panel][k][columns], the columns in whole lines.
// OpenBLAS copies a matrix for every product, which costs as much as the product when it has ten
// rows; a panel is read from end to end, and the sums of up to 12 rows stay in registers while it
// is. A product is a convolution of an image of one row with a kernel of one pixel, channels being
// the columns: so its sums have the same bits in all families of processors, and for any number of
// rows.
class PackedMatrix {
 public:
  explicit PackedMatrix(const ConvolutionKernels& kernels = convolution_kernels())
      : kernels_(&kernels) {}
  // Its products are in bfloat16.
  explicit PackedMatrix(const Bfloat16Kernels& kernels) : bfloat16_(&kernels) {}

  // M <- w [k, n], or the transpose of w [n, k]. Cost: as a copy of w.
  void load(const float* w, int64_t k, int64_t n);
  void load_transposed(const float* w, int64_t n, int64_t k);

  // y [rows, n] <- x M + `start` [n, in whole lines] in every row; null: zeros. x [rows, k].
  // Cost: 2 rows k n flops, at 0.9 of a core's peak for ten rows where M stays in the cache.
  void multiply(const float* x, int64_t rows, const float* start, float* y) const;

  // y [rows, n] <- y + x M
  void add_product(const float* x, int64_t rows, float* y) const;

 private:
  static constexpr int64_t kPanel = 32;  // columns: two vectors of AVX-512
  template <class F>
  void fill(int64_t k, int64_t n, F f);
  void run_bfloat16(const float* x, int64_t rows, float* y, const float* start, bool add) const;
  void run(const float* x, int64_t rows, float* y, const float* start, bool add) const;

  const ConvolutionKernels* kernels_ = nullptr;  // either these
  const Bfloat16Kernels* bfloat16_ = nullptr;    // or those
  int64_t k_ = 0, n_ = 0;
  AlignedFloats panels_;
  PackedPairs pairs_;  // with bfloat16_
};

}  // namespace hanse
