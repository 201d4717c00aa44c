// Convolutions as products in bfloat16 (src/README.md, "Products in bfloat16").
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "kernels/bfloat16_kernels.hpp"
#include "kernels/convolution_kernels.hpp"

namespace hanse {

// What ConvolutionKernels do, on patches: a pixel of y has a row of its kernel^2 inputs values of x
// as [i][j][v], the zeros of the border too, and y is the product of these rows and w. Memory: 4
// bytes a value of x, and with AMX 8 a value of the patches of kStripePixels or one row of pixels.
class Bfloat16Convolution {
 public:
  explicit Bfloat16Convolution(const Bfloat16Kernels& kernels = bfloat16_kernels())
      : kernels_(&kernels) {}

  // w is packed from [kernel^2 inputs, outputs]. REQUIRES: as ConvolutionKernels::convolve.
  void convolve(const Convolution& c, ConstImage x, const uint32_t* w, Image y,
                const Finish& finish);

  // gradient [kernel^2 inputs, line()] += that of w: one stripe's sum of pixels after the other.
  void add_weight_gradient(const Convolution& c, ConstImage x, ConstImage d, float* gradient);

 private:
  static constexpr int64_t kStripePixels = 256;
  static int64_t stripe_rows(const Convolution& c) {
    return c.width < kStripePixels ? kStripePixels / c.width : 1;
  }
  // convolve() without AMX: products read patches where the image lies.
  void convolve_in_place(const Convolution& c, ConstImage x, Image y, const Finish& finish,
                         Bfloat16Product product);
  // Computes a row of y. `product` lacks only where its result goes.
  void multiply_row(const Convolution& c, int64_t row, Image y, const Finish& finish,
                    Bfloat16Product product) const;
  // Where the pixels of `rows` rows of an image begin.
  const int64_t* places(const Convolution& c, int64_t rows, int64_t row, int64_t pixel);
  // left_ <- the patches of the pixels of rows of y from `first` on, as AMX has them.
  void pack_patches(const Convolution& c, ConstImage x, int64_t first, int64_t rows);

  const Bfloat16Kernels* kernels_;
  AlignedFloats patches_, left_;
  ColumnFactor columns_;
  std::vector<int64_t> places_;
  PackedPairs right_;
};

}  // namespace hanse
