#include "group_norm.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/layer_kernels.hpp"

namespace hanse {

GroupNorm::GroupNorm(int64_t gamma, int64_t beta, int64_t channels, int64_t groups, int64_t pixels,
                     VectorFamily family)
    : gamma_(gamma),
      beta_(beta),
      channels_(channels),
      group_(channels / groups),
      pixels_(pixels),
      line_(whole_lines(channels)),
      kernels_(group_norm_kernels(family)) {}

void GroupNorm::hold(int64_t rows) {
  for (AlignedFloats* values :
       {&mean_, &inverse_, &scale_, &shift_, &of_delta_, &of_input_, &constant_, &both_shifts_}) {
    grow(*values, rows * line_);
  }
  for (std::vector<double>* sums : {&sums_, &delta_sums_, &product_sums_}) {
    grow(*sums, rows * line_);
  }
}

double GroupNorm::group_mean(const double* sums, int64_t first) const {
  double sum = 0;
  for (int64_t c = first; c < first + group_; ++c) sum += sums[c];
  return sum / static_cast<double>(group_ * pixels_);
}

void GroupNorm::measure(const float* row, const float* x, int64_t image) {
  float* mean_of = mean(image);
  float* inverse_of = inverse(image);
  float* scale_of = scale_.data() + image * line_;
  float* shift_of = shift_.data() + image * line_;
  double* sums = sums_.data() + image * line_;
  std::fill_n(sums, line_, 0.0);
  kernels_.add(x, pixels_, line_, sums);
  for (int64_t first = 0; first < channels_; first += group_) {
    std::fill_n(mean_of + first, group_, static_cast<float>(group_mean(sums, first)));
  }
  std::fill_n(sums, line_, 0.0);
  kernels_.add_squares(x, mean_of, pixels_, line_, sums);
  for (int64_t first = 0; first < channels_; first += group_) {
    const double inverse = 1 / std::sqrt(group_mean(sums, first) + kNormEpsilon);
    for (int64_t c = first; c < first + group_; ++c) {
      const double scale = inverse * double{row[gamma_ + c]};
      inverse_of[c] = static_cast<float>(inverse);
      scale_of[c] = static_cast<float>(scale);
      shift_of[c] = static_cast<float>(double{row[beta_ + c]} - double{mean_of[c]} * scale);
    }
  }
}

void GroupNorm::normalize(const float* x, int64_t image, const float* other, float* y) const {
  kernels_.normalize({.x = x, .scale = scale(image), .shift = shift(image), .other = other},
                     pixels_, line_, y);
}

void GroupNorm::normalize(const float* x, int64_t image, const float* other,
                          const GroupNorm& other_norm, float* y) {
  float* shifts = both_shifts_.data() + image * line_;
  for (int64_t c = 0; c < line_; ++c) shifts[c] = shift(image)[c] + other_norm.shift(image)[c];
  kernels_.normalize({.x = x,
                      .scale = scale(image),
                      .shift = shifts,
                      .other = other,
                      .other_scale = other_norm.scale(image)},
                     pixels_, line_, y);
}

void GroupNorm::backward(const float* row, const float* x, int64_t image, const float* y, float* d,
                         float* dx) {
  double* sums = delta_sums_.data() + image * line_;
  double* products = product_sums_.data() + image * line_;
  std::fill_n(sums, line_, 0.0);
  std::fill_n(products, line_, 0.0);
  kernels_.gate_and_add(d, y, x, mean(image), pixels_, line_, sums, products);
  float* of_delta = of_delta_.data() + image * line_;
  float* of_input = of_input_.data() + image * line_;
  float* constant = constant_.data() + image * line_;
  for (int64_t first = 0; first < channels_; first += group_) {
    double sum = 0, product = 0;  // of gamma d, and of gamma d (x - m)
    for (int64_t c = first; c < first + group_; ++c) {
      sum += double{row[gamma_ + c]} * sums[c];
      product += double{row[gamma_ + c]} * products[c];
    }
    const double n = static_cast<double>(group_ * pixels_);
    const double inverse = double{this->inverse(image)[first]},
                 mean_of = double{mean(image)[first]};
    const double by_x = -inverse * inverse * inverse * product / n;
    for (int64_t c = first; c < first + group_; ++c) {
      of_delta[c] = static_cast<float>(inverse * double{row[gamma_ + c]});
      of_input[c] = static_cast<float>(by_x);
      constant[c] = static_cast<float>(-inverse * sum / n - by_x * mean_of);
      products[c] *= inverse;  // of d z
    }
  }
  kernels_.combine(d, of_delta, x, of_input, constant, pixels_, line_, dx);
}

void GroupNorm::hand_over(const GradientTarget& target, int64_t rows) {
  const auto add = [&](int64_t offset, const std::vector<double>& sums) {
    if (!target.wants(offset)) return;
    float* gradient = grow(gradient_, channels_);
    for (int64_t c = 0; c < channels_; ++c) {
      double sum = 0;
      for (int64_t image = 0; image < rows; ++image) {
        sum += sums[static_cast<std::size_t>(image * line_ + c)];
      }
      gradient[c] = static_cast<float>(sum);
    }
    target.add(offset, gradient, channels_);
  };
  add(gamma_, product_sums_);
  add(beta_, delta_sums_);
}

}  // namespace hanse
