// Derivatives of ConvolutionStack along a direction of the parameters.
#include "kernels/layer_kernels.hpp"
#include "layers/convolution.hpp"

namespace hanse {

// Below, d stands for the derivative along v, in which W, b move by V, c.

// dy = V * x + c + W * dx, at the pixels that the pooling has chosen, where their ReLU is linear.
void ConvolutionStack::tangent_of_stage(Workspace& work, std::size_t s, int64_t image) {
  Stage& stage = stages_[s];
  const Convolution& c = stage.forward;
  const Image y = work[s].convolved.hold(1).inside();
  kernels_.convolve(c, stage.input.whole(image), stage.direction.weights.values.data(), y,
                    {.bias = stage.direction.bias.data()});
  if (s > 0) {
    kernels_.convolve(c, stage.tangent.whole(image), stage.own.weights.values.data(), y,
                      {.add = true});
  }
  const bool last = s + 1 == stages_.size();
  const Image to =
      last ? work[s].output_tangent.hold(1).inside() : stages_[s + 1].tangent.inside(image);
  const Image active = behind(s, image, work[s].output);
  const int64_t step = stage.pool ? 2 : 1;
  const int32_t* which = stage.pool ? stage.which_of(image) : nullptr;
  for (int64_t r = 0; r < stage.height; ++r) {
    for (int64_t column = 0; column < stage.width; ++column) {
      const float* from = y.data + step * (r * y.row + column * y.pixel);
      for (int64_t v = 0; v < c.outputs; ++v) {
        const int64_t at = stage.pool ? *which++ : 0;
        const bool linear = last || active.data[r * active.row + column * active.pixel + v] > 0;
        to.data[r * to.row + column * to.pixel + v] =
            linear ? from[at / 2 * y.row + at % 2 * y.pixel + v] : 0;
      }
    }
  }
}

const float* ConvolutionStack::forward_tangent(const float* row, const float* v) {
  for (Stage& stage : stages_) {
    load(stage, v, stage.direction);
    load_flipped(stage, v, stage.direction);
    load_flipped(stage, row, stage.own);
    stage.tangent.hold(rows_);
  }
  const Stage& last = stages_.back();
  float* features = grow(features_tangent_, rows_ * last.output_size());
  for_each_image([&](Workspace& work, int64_t image) {
    for (std::size_t s = 0; s < stages_.size(); ++s) tangent_of_stage(work, s, image);
    transpose(work.back().output_tangent.values.data(), last.forward.outputs,
              last.height * last.width, last.forward.outputs, features + image * last.output_size(),
              last.height * last.width);
  });
  return features;
}

// d(delta * x) = ddelta * x + delta * dx, and below it d(delta * W) = ddelta * W + delta * V
void ConvolutionStack::backward_tangent(const float* delta, const float* tangent, float* out) {
  clear_gradients();
  for_each_image([&](Workspace& work, int64_t image) {
    const Stage& last = stages_.back();
    Scratch& top = work.back();
    const int64_t at = image * last.output_size();
    take_features(delta + at, delta_of(last, top.output, top.delta));
    take_features(tangent + at, delta_of(last, top.output_tangent, top.delta_tangent));
    for (std::size_t s = stages_.size(); s-- > 0;) {
      Stage& stage = stages_[s];
      Scratch& own = work[s];
      unpool(stage, image, own.output, own.delta);
      unpool(stage, image, own.output_tangent, own.delta_tangent);
      add_gradient(stage, stage.input.whole(image), own.output_tangent, own.delta_tangent, own);
      if (s == 0) break;
      kernels_.add_weight_gradient(stage.forward, stage.tangent.whole(image), own.delta.inside(),
                                   own.gradient.data());
      const Stage& next = stages_[s - 1];
      Scratch& below = work[s - 1];
      const auto take_back = [&](Images& from, const Parameters& by, Image to, bool add) {
        kernels_.convolve(stage.backward, from.whole(), by.flipped.values.data(), to,
                          {.add = add, .gate = stage.input.inside(image)});
      };
      const Image to = delta_of(next, below.output_tangent, below.delta_tangent);
      take_back(own.delta_tangent, stage.own, to, false);
      take_back(own.delta, stage.direction, to, true);
      take_back(own.delta, stage.own, delta_of(next, below.output, below.delta), false);
    }
  });
  hand_over({.update = {.row = out}}, 0);
}

}  // namespace hanse
