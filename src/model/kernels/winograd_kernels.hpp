// The minimal filtering F(2x2, 3x3) of Winograd (1980) for convolutions, as Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks" (2016), equation 8:
//
//   y = A^T ((G g G^T) . (B^T d B)) A,  B^T = 1  0 -1  0   G = 1    0   0    A^T = 1  1  1  0
//                                             0  1  1  0       1/2  1/2 1/2        0  1 -1 -1
//                                             0 -1  1  0       1/2 -1/2 1/2
//                                             0  1  0 -1       0    0   1
//
// gives 2x2 pixels y of the convolution of 4x4 pixels d with the 3x3 weights g, by 16
// multiplications (.) of single numbers in the place of 36. Over channels these become 16 products
// of matrices, and the gradient follows by the chain rule: each factor's by its transpose.
#pragma once

#include <cstdint>

#include "convolution_kernels.hpp"

namespace hanse {

inline constexpr int64_t kPatch = 4, kTile = 2;  // sides of d and of y
inline constexpr int64_t kProducts = kPatch * kPatch;
inline constexpr int64_t kWeightBlock = 16;  // channels of a block of weights

// The products' factors and their sums, of all 16 products; [4][4] of lines `apart` floats apart.
template <class T>
ImageOf<T> products_image(T* first, int64_t apart) {
  return {first, apart, kPatch * apart};
}

// The kernels of one family of processors. A map takes images of whole lines, `channels` floats of
// every pixel, to others, and has the same bits in all families.
struct WinogradKernels {
  using Map = void (*)(ConstImage from, int64_t channels, Image to);
  Map input;         // B^T d B of d [4, 4]
  Map input_delta;   // d += B v B^T, the transpose of it
  Map output;        // A^T m A, [2, 2] of m [4, 4]
  Map output_delta;  // A d A^T
  Map weight;        // G g G^T of g [3, 3]
  Map weight_delta;  // G^T u G

  // to [kWeightBlock, kWeightBlock] <- from transposed, whose rows are from_row and to_row floats
  // apart: how weights change between the order of the row and lines of channels.
  void (*transpose)(const float* from, int64_t from_row, float* to, int64_t to_row);
};

const WinogradKernels& winograd_kernels(VectorFamily family = fastest_family());

}  // namespace hanse
