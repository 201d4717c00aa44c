// What a residual network is made of.
#pragma once

#include <optional>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "layers/group_norm.hpp"
#include "layers/same_convolution.hpp"

namespace hanse {

// A convolution and the norm behind it, which has a ReLU behind it where the network has one.
struct NormedConvolution {
  SameConvolution convolution;
  GroupNorm norm;
  AlignedFloats sums;  // [rows, out_size], between them

  bool wanted(const GradientTarget& target) const {
    return target.wants(convolution.weight()) || norm.wanted(target);
  }
};

// relu(F(x) + x), the shortcut through a convolution when the block changes the shape.
struct ResidualBlock {
  NormedConvolution first, second;
  std::optional<NormedConvolution> shortcut;
  AlignedFloats inner, output;  // behind the ReLUs of `first` and of the block

  bool wanted(const GradientTarget& target) const {
    return first.wanted(target) || second.wanted(target) || (shortcut && shortcut->wanted(target));
  }
};

}  // namespace hanse
