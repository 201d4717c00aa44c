// A convolution whose padding keeps the sides of the images, but for its stride.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "kernels/bfloat16_kernels.hpp"
#include "kernels/convolution_kernels.hpp"
#include "kernels/winograd_kernels.hpp"

namespace hanse {

// A matrix [rows, columns] as the kernels read it from the cache without conflicts: in panels of 64
// columns, each [rows, 64] without gaps, the last one of whole lines.
struct Panels {
  static constexpr int64_t kWidth = 64;
  int64_t rows, columns;

  int64_t line() const { return whole_lines(columns); }
  int64_t size() const { return rows * line(); }
  int64_t width_at(int64_t column) const {
    return std::min(kWidth, line() - column / kWidth * kWidth);
  }
  int64_t at(int64_t row, int64_t column) const {
    const int64_t first = column / kWidth * kWidth;
    return first * rows + row * width_at(column) + column - first;
  }
};

// What all convolutions of a model use by turns.
struct ConvolutionScratch {
  // What one thread uses for some of the images.
  struct Share {
    AlignedFloats inputs, sums, inputs_delta;  // of the products
    AlignedFloats patch;                       // pixels at an image's edge
    AlignedFloats gradient;                    // of the products' weights, transposed
    AlignedFloats left;                        // packed factors, in bfloat16 ...
    ColumnFactor columns;
    PackedPairs right;
  };
  AlignedFloats weights;   // of the products
  PackedPairs packed;      // ... and the weights, in bfloat16
  AlignedFloats block;     // of weights
  AlignedFloats unpacked;  // the gradient of an output's weights
  std::vector<Share> shares;
};

// Images lie in channels-last, one after another, each pixel in whole lines with zeros behind the
// last channel. The convolution becomes products of matrices, of some images' pixels at a time:
//
//   3x3, stride 1  Winograd's 16 of its tiles of 2x2 pixels (winograd_kernels.hpp): 2.25 times
//                  fewer multiplications, and rounding errors of the same size
//   others         one of the pixels under the kernel, side by side (im2col; Chellapilla et al.
//                  2006), [pixels, kernel kernel inputs]; so all of them in bfloat16
//
// The weights are read once for all images, in the order of the products, which is made anew from
// the row in every pass: in one place for all convolutions of a model, which so stays in the cache.
// Cost beyond the products: a few passes over the images, and three over the weights, which take a
// fifth of the time of a step of ResNet-18 on 10 images. Results have the same bits in all families
// of processors.
class SameConvolution {
 public:
  struct Size {
    int64_t inputs, outputs;  // channels
    int64_t height, width;    // of the input
    int64_t kernel, stride;
    bool of_samples = false;  // the input's pixels lie without gaps

    int64_t out_height() const { return (height + stride - 1) / stride; }
    int64_t out_width() const { return (width + stride - 1) / stride; }
    int64_t out_pixels() const { return out_height() * out_width(); }
    // Distance of pixels.
    int64_t in_line() const { return of_samples ? inputs : whole_lines(inputs); }
    int64_t out_line() const { return whole_lines(outputs); }
    int64_t in_size() const { return height * width * in_line(); }  // of an image
    int64_t out_size() const { return out_pixels() * out_line(); }
    int64_t multiply_adds() const { return out_pixels() * outputs * inputs * kernel * kernel; }
  };

  // `weight` is the offset of [outputs, inputs, kernel, kernel] in the row.
  SameConvolution(int64_t weight, const Size& size, VectorFamily family = fastest_family(),
                  const Bfloat16Kernels* in_bfloat16 = nullptr);

  const Size& size() const { return size_; }
  int64_t weight() const { return weight_; }

  // y [rows, out_size] <- the convolution of x [rows, in_size], for the images [first, end), by the
  // weights that load() has left in `scratch`.
  void load(const float* row, ConvolutionScratch& scratch) const;
  void forward(const float* x, int64_t first, int64_t end, float* y, ConvolutionScratch& scratch,
               ConvolutionScratch::Share& share) const;

  // With so many images at a time forward() and backward() are as fast as with all.
  int64_t images_at_once() const { return (chunk_size() + units_ - 1) / units_; }

  // From the delta dy [rows, out_size] of y adds that of x to dx [rows, in_size], unless dx is
  // null, and the weight's gradient to the share where it is wanted. REQUIRES: load_transposed()
  // before it for dx, clear_gradient() for the gradient.
  void load_transposed(const float* row, ConvolutionScratch& scratch) const;
  void clear_gradient(ConvolutionScratch::Share& share) const;
  void backward(const float* x, const float* dy, int64_t first, int64_t end, float* dx,
                bool gradient_wanted, ConvolutionScratch& scratch,
                ConvolutionScratch::Share& share) const;
  // Hands over the sum of the first `shares` shares.
  void hand_over(const GradientTarget& target, int64_t shares, ConvolutionScratch& scratch) const;

 private:
  // Units are tiles of 2x2 pixels, or pixels, of all images; unit u belongs to image u / units_.
  template <class F>
  void for_each_unit(int64_t first, int64_t count, F f) const;
  int64_t chunk_size() const;
  int64_t depth() const { return winograd_ ? size_.inputs : places_ * size_.inputs; }
  Panels forward_weights() const { return {depth(), size_.outputs}; }
  Panels transposed_weights() const { return {size_.outputs, depth()}; }
  // Distances of the units in the factors and the sums of a product.
  int64_t input_line() const;
  int64_t sum_line() const;

  float* patch_of(ConvolutionScratch::Share& share) const;

  // Products in bfloat16 of `count` units.
  void pack(const Panels& panels, ConvolutionScratch& scratch) const;
  void multiply_packed(const float* left, int64_t line, int64_t count, const Panels& panels,
                       float* to, int64_t to_line, const ConvolutionScratch& scratch,
                       ConvolutionScratch::Share& share) const;
  void add_packed_gradient(const float* dy, int64_t count, ConvolutionScratch::Share& share) const;

  // For `count` units from `first`: the products' factors from x, y from their sums, and back.
  void lower(const float* x, int64_t first, int64_t count, ConvolutionScratch::Share& share) const;
  void raise(int64_t first, int64_t count, float* y, ConvolutionScratch::Share& share) const;
  void lower_delta(const float* dy, int64_t first, int64_t count,
                   ConvolutionScratch::Share& share) const;
  void raise_delta(int64_t first, int64_t count, float* dx, ConvolutionScratch::Share& share) const;

  int64_t weight_;
  Size size_;
  bool winograd_;
  int64_t places_;                // of the kernel
  int64_t products_;              // matrices
  int64_t unit_columns_, units_;  // of an image
  const ConvolutionKernels& kernels_;
  const WinogradKernels& winograd_kernels_;
  const Bfloat16Kernels* bfloat16_;  // null: float32
};

}  // namespace hanse
