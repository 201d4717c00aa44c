// Convolutions with ReLU between them, gradient in closed form.
#pragma once

#include <cstdint>
#include <vector>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/model/layout.hpp"
#include "kernels/convolution_kernels.hpp"
#include "kernels/shares.hpp"
#include "layers/bfloat16_convolution.hpp"
#include "layers/clipped_sum.hpp"
#include "network_spec.hpp"

namespace hanse {

// Stages of a convolution, 2x2 max pooling where the stage has it, and ReLU: since it stands behind
// the pooling, max(relu(x)) = relu(max(x)), it works on a quarter of the values. The last stage's
// ReLU is left to what follows.
//
// Inside, images lie in channels-last, each in a border of as many zeros as its convolution pads,
// and one sample goes through all stages while it is in the cache. Cost of a training step: 6 flops
// a product (4 in the first stage), of which gradients behind a pooling leave out at least three of
// four of theirs, and some passes over the activations. Memory: of all rows each
// stage's input and the places of the maxima, and for each thread all else of one sample. Threads,
// as many as OpenBLAS has, share the rows.
class ConvolutionStack {
 public:
  // Appends "conv1.weight" [out, in, kernel, kernel], "conv1.bias", ... to `layout`, for samples
  // {channels, height, width} that are large enough for the stages. With `in_bfloat16` all products
  // are in it, and there are no derivatives along a direction.
  ConvolutionStack(ParameterLayout& layout, const std::vector<ConvolutionStage>& stages,
                   const std::vector<int64_t>& sample_shape,
                   const ConvolutionKernels& kernels = convolution_kernels(),
                   bool in_bfloat16 = false);

  int64_t features() const;  // values of a sample that the stages leave
  // Multiply-adds of each stage, a sample.
  std::vector<int64_t> products() const;

  // Features [rows, channels, height, width] of samples of that order, before their ReLU. They live
  // until the next call.
  const float* forward(const float* row, const float* samples, int64_t rows);

  // Hands the gradient to `target`, which may be the row of forward() itself; `delta` is that of
  // the features. REQUIRES: the stages' part of the row is as the last forward() found it.
  void backward(const float* row, const float* delta, const GradientTarget& target);

  // Derivatives along v [P], laid out as the row (Pearlmutter 1994), after forward() of the row.
  // The first returns that of the features; the second takes their delta and its derivative
  // `tangent`, and writes that of backward()'s gradient to the stages' part of `out`.
  const float* forward_tangent(const float* row, const float* v);
  void backward_tangent(const float* delta, const float* tangent, float* out);

 private:
  // Images one after another, each in a border of zeros that nobody writes to.
  struct Images {
    int64_t height = 0, width = 0, channels = 0, border = 0;
    AlignedFloats values;

    Images& hold(int64_t images);
    Image whole(int64_t image = 0);   // with its border
    Image inside(int64_t image = 0);  // without its border
    int64_t row() const { return (width + 2 * border) * channels; }
    int64_t size() const { return (height + 2 * border) * row(); }
  };

  // A convolution's weights as the kernels read them.
  struct Weights {
    AlignedFloats values;
    PackedPairs packed;  // with bfloat16 alone
  };

  struct Parameters {
    Weights weights;
    AlignedFloats bias;
    Weights flipped;          // of the convolution that takes deltas back
    AlignedFloats by_output;  // likewise, of a pooled stage
  };

  struct Stage {
    int64_t weight, bias;  // offsets in the row
    bool pool;
    bool leaves_out;  // backward() leaves out products with the zeros behind the pooling
    Convolution forward, backward;
    Images input, tangent;       // of all rows; the latter is the former's derivative
    std::vector<int32_t> which;  // of all rows, where the largest of each 2x2 stands
    Parameters own, direction;
    int64_t height, width;  // of the output

    int64_t output_size() const { return height * width * forward.outputs; }
    int32_t* which_of(int64_t image) { return which.data() + image * output_size(); }
    // It is worth it where few of the lanes hold no value of a patch.
    bool sums_by_output() const {
      return leaves_out &&
             forward.outputs * forward.patch_line() <= 2 * forward.patch() * forward.line();
    }
    PooledGradient gradient_of(int64_t image, const Images& output) {
      return {height, width, output.values.data(), which_of(image)};
    }
  };

  // What a thread holds of a stage for one image: the output or the delta of the stage and of its
  // convolution, and their derivatives.
  struct Scratch {
    Images output, convolved, delta;
    Images output_tangent, delta_tangent;
    Bfloat16Convolution bfloat16{};
    AlignedFloats gradient, bias_gradient;  // of all of its images, as the kernels add them up
    AlignedFloats gradient_by_output;       // likewise, where the stage sums_by_output()
    bool reads_finite = true;               // the stage, in all of its images
    PooledWork pooled;
    Images input_delta;
    ClippedSum clipped;  // of its images' gradients apart
  };
  using Workspace = std::vector<Scratch>;  // for each stage

  static Stage make_stage(const ConvolutionStage& of, int64_t channels, int64_t height,
                          int64_t width);
  Workspace make_workspace() const;
  void load(const Stage& stage, const float* row, Parameters& to) const;
  void load_flipped(const Stage& stage, const float* row, Parameters& to) const;
  void pack(const Convolution& c, Weights& weights) const;
  void convolve(Scratch& work, const Convolution& c, ConstImage x, const Weights& w, Image y,
                const Finish& finish) const;

  // Calls f(workspace, image) for all images.
  template <class F>
  void for_each_image(F f);
  // Where a stage's output goes: into the next stage's input; the last stage's into `output`.
  Image behind(std::size_t s, int64_t image, Images& output);
  void run_stage(Workspace& work, std::size_t s, int64_t image);
  bool is_finite(std::size_t s, const float* row) const;  // what the stage read, and its weights
  void tangent_of_stage(Workspace& work, std::size_t s, int64_t image);
  // Where the delta of a stage's output stands: with pooling in `output`, else in `delta`.
  static Image delta_of(const Stage& stage, Images& output, Images& delta);
  void take_features(const float* delta, Image to) const;
  void unpool(Stage& stage, int64_t image, Images& output, Images& delta);
  void add_gradient(const Stage& stage, Image input, Images& output, Images& delta, Scratch& sums);
  void add_gradient(Stage& stage, int64_t image, Scratch& work);
  void take_back(Stage& stage, int64_t image, Scratch& work, Image to);
  void settle_gradients(Workspace& work) const;
  void clear_gradients();
  void clear_gradients(Workspace& work) const;
  void retreat(Workspace& work, int64_t image, const float* delta, std::size_t first);
  void backward_samples(const float* delta, SampleGradients& samples);
  const float* weight_gradient(std::size_t s);                      // in the row's order
  void hand_over(const GradientTarget& target, std::size_t first);  // from stage `first` on

  std::vector<int64_t> sample_shape_;
  std::vector<Stage> stages_;
  const ConvolutionKernels& kernels_;
  bool bfloat16_;
  std::vector<Workspace> workspaces_;          // for each thread
  AlignedFloats features_, features_tangent_;  // [rows, features]
  AlignedFloats unpacked_;                     // a weight's gradient
  int64_t rows_ = 0;
};

template <class F>
void ConvolutionStack::for_each_image(F f) {
  while (std::ssize(workspaces_) < number_of_shares(rows_)) workspaces_.push_back(make_workspace());
  in_shares(rows_, [&](int64_t share, int64_t first, int64_t end) {
    Workspace& work = workspaces_[static_cast<std::size_t>(share)];
    for (int64_t image = first; image < end; ++image) f(work, image);
  });
}

}  // namespace hanse
