// Group norm with the ReLU behind it, gradient in closed form.
#pragma once

#include <cstdint>
#include <vector>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "kernels/group_norm_kernels.hpp"

namespace hanse {

// The epsilon of layer and group norms, torch's default.
inline constexpr double kNormEpsilon = 1e-5;

// Wu and He, "Group Normalization" (2018), equations 1 to 7, on images in channels-last whose
// pixels are whole lines. A group of channels of one image has n values x, with mean m and variance
// v (divided by n), r = 1 / sqrt(v + epsilon), z = (x - m) r, and channel c of it gives
//
//   y = gamma_c z + beta_c.
//
// With d the delta of y, and sums over the group's values, the gradient is
//
//   dbeta_c = sum of c's d,  dgamma_c = sum of c's d z,
//   dx = r (gamma_c d - sum(gamma d) / n - z sum(gamma d z) / n).
//
// Statistics are sums in float64 of short sums in float32, channel by channel: their bits depend on
// the image alone. Cost: forwards three passes over the values, backwards two.
class GroupNorm {
 public:
  // Offsets of gamma and beta in the row.
  GroupNorm(int64_t gamma, int64_t beta, int64_t channels, int64_t groups, int64_t pixels,
            VectorFamily family = fastest_family());

  // Takes memory for so many images.
  void hold(int64_t rows);

  // Takes the statistics of image `image`, x [pixels, line]: one scale and one shift a channel, by
  // which it is normalized.
  void measure(const float* row, const float* x, int64_t image);
  // y <- relu(norm(x) + other), without `other` where it is null.
  void normalize(const float* x, int64_t image, const float* other, float* y) const;
  // y <- relu(norm(x) + other_norm(other)), where other_norm has measured the image, too.
  void normalize(const float* x, int64_t image, const float* other, const GroupNorm& other_norm,
                 float* y);

  // From the delta d of relu(...) to that of x: d <- 0 where the output y <= 0 (unless y is null),
  // dx <- the delta of x, which may be d.
  void backward(const float* row, const float* x, int64_t image, const float* y, float* d,
                float* dx);
  // Hands over the gradient of the first `rows` images, which backward() has seen.
  void hand_over(const GradientTarget& target, int64_t rows);
  bool wanted(const GradientTarget& target) const {
    return target.wants(gamma_) || target.wants(beta_);
  }

 private:
  // The statistics of one image, [line] each.
  float* mean(int64_t image) { return mean_.data() + image * line_; }
  float* inverse(int64_t image) { return inverse_.data() + image * line_; }
  const float* scale(int64_t image) const { return scale_.data() + image * line_; }
  const float* shift(int64_t image) const { return shift_.data() + image * line_; }
  // The mean of sums [channels] over the channels and pixels of the group that begins at `first`.
  double group_mean(const double* sums, int64_t first) const;

  int64_t gamma_, beta_, channels_, group_, pixels_, line_;  // group_: channels of one
  const GroupNormKernels& kernels_;
  AlignedFloats mean_, inverse_, scale_, shift_;   // [rows, line], zeros behind the channels
  std::vector<double> delta_sums_, product_sums_;  // [rows, line]: of d and of d (x - m)
  std::vector<double> sums_;                       // [rows, line]
  AlignedFloats of_delta_, of_input_, constant_;   // [rows, line], of dx
  AlignedFloats both_shifts_;                      // [rows, line]
  AlignedFloats gradient_;                         // [channels]
};

}  // namespace hanse
