#include "convolution.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "hanse/base/index.hpp"
#include "kernels/layer_kernels.hpp"
#include "layers/pixel_sums.hpp"

namespace hanse {

ConvolutionStack::Images& ConvolutionStack::Images::hold(int64_t images) {
  grow(values, images * size() + kReadAhead);
  return *this;
}

Image ConvolutionStack::Images::whole(int64_t image) {
  return {values.data() + image * size(), channels, row()};
}

Image ConvolutionStack::Images::inside(int64_t image) {
  const Image all = whole(image);
  return {all.data + border * (all.row + all.pixel), all.pixel, all.row};
}

ConvolutionStack::ConvolutionStack(ParameterLayout& layout,
                                   const std::vector<ConvolutionStage>& stages,
                                   const std::vector<int64_t>& sample_shape,
                                   const ConvolutionKernels& kernels, bool in_bfloat16)
    : sample_shape_(sample_shape), kernels_(kernels), bfloat16_(in_bfloat16) {
  int64_t channels = sample_shape[0], height = sample_shape[1], width = sample_shape[2];
  for (const ConvolutionStage& of : stages) {
    Stage stage = make_stage(of, channels, height, width);
    const std::string name = "conv" + std::to_string(stages_.size() + 1);
    const int64_t fan_in = channels * of.kernel * of.kernel;
    stage.weight =
        layout.add(name + ".weight", {of.channels, channels, of.kernel, of.kernel}, fan_in);
    stage.bias = layout.add(name + ".bias", {of.channels}, fan_in);
    channels = of.channels;
    height = stage.height;
    width = stage.width;
    stages_.push_back(std::move(stage));
  }
}

int64_t ConvolutionStack::features() const { return stages_.back().output_size(); }

ConvolutionStack::Stage ConvolutionStack::make_stage(const ConvolutionStage& of, int64_t channels,
                                                     int64_t height, int64_t width) {
  Stage stage{};
  stage.pool = of.pool;
  stage.forward = {.height = height - of.kernel + 1 + 2 * of.padding,
                   .width = width - of.kernel + 1 + 2 * of.padding,
                   .kernel = of.kernel,
                   .inputs = channels,
                   .outputs = of.channels,
                   .margin = of.padding};
  stage.backward = {.height = height,
                    .width = width,
                    .kernel = of.kernel,
                    .inputs = of.channels,
                    .outputs = channels,
                    .margin = of.kernel - 1 - of.padding};
  stage.input = {height, width, channels, of.padding, {}};
  stage.tangent = stage.input;
  stage.height = stage.forward.height / (of.pool ? 2 : 1);
  stage.width = stage.forward.width / (of.pool ? 2 : 1);
  return stage;
}

ConvolutionStack::Workspace ConvolutionStack::make_workspace() const {
  Workspace work;
  for (const Stage& stage : stages_) {
    const Convolution& c = stage.forward;
    const int64_t border = work.empty() ? 0 : stage.backward.margin;  // the samples get no delta
    Scratch scratch{.clipped = ClippedSum(c)};
    scratch.output = {stage.height, stage.width, c.outputs, 0, {}};
    scratch.convolved = {c.height, c.width, c.outputs, 0, {}};
    scratch.delta = {c.height, c.width, c.outputs, border, {}};
    scratch.input_delta = {stage.input.height, stage.input.width, c.inputs, c.margin, {}};
    scratch.output_tangent = scratch.output;
    scratch.delta_tangent = scratch.delta;
    work.push_back(std::move(scratch));
  }
  return work;
}

std::vector<int64_t> ConvolutionStack::products() const {
  std::vector<int64_t> found;
  for (const Stage& stage : stages_) {
    const Convolution& c = stage.forward;
    found.push_back(c.height * c.width * c.outputs * c.inputs * c.kernel * c.kernel);
  }
  return found;
}

// Loads the weights as [i][j][v][o] from the row's [o][v][i][j].
void ConvolutionStack::load(const Stage& stage, const float* row, Parameters& to) const {
  const Convolution& c = stage.forward;
  const int64_t places = c.kernel * c.kernel, line = c.line();
  float* weights = grow(to.weights.values, c.weights());
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t v = 0; v < c.inputs; ++v, weights += line) {
      const float* from = row + stage.weight + v * places + place;
      for (int64_t o = 0; o < c.outputs; ++o) weights[o] = from[o * c.inputs * places];
    }
  }
  std::copy_n(row + stage.bias, c.outputs, grow(to.bias, line));
  pack(c, to.weights);
}

// Loads the weights as [o][i][j][v] in the kernels' lines.
static void load_by_output(const Convolution& c, const float* from, AlignedFloats& to) {
  const int64_t places = c.kernel * c.kernel;
  float* lines = grow(to, c.outputs * c.output_weights());
  for (int64_t o = 0; o < c.outputs; ++o) {
    const float* first = from + o * c.inputs * places;
    for (int64_t i = 0; i < c.kernel; ++i, first += c.kernel, lines += c.patch_line()) {
      for (int64_t v = 0; v < c.inputs; ++v) {
        for (int64_t j = 0; j < c.kernel; ++j) lines[j * c.inputs + v] = first[v * places + j];
      }
    }
  }
}

// Loads the weights as [k - 1 - i][k - 1 - j][o][v].
void ConvolutionStack::load_flipped(const Stage& stage, const float* row, Parameters& to) const {
  const Convolution& c = stage.backward;
  const int64_t places = c.kernel * c.kernel, line = c.line();
  float* flipped = grow(to.flipped.values, c.weights());
  for (int64_t place = places; place-- > 0;) {
    for (int64_t o = 0; o < c.inputs; ++o, flipped += line) {
      const float* from = row + stage.weight + o * c.outputs * places + place;
      for (int64_t v = 0; v < c.outputs; ++v) flipped[v] = from[v * places];
    }
  }
  pack(c, to.flipped);
}

void ConvolutionStack::pack(const Convolution& c, Weights& weights) const {
  if (!bfloat16_) return;
  const int64_t size = c.kernel * c.kernel * c.inputs;
  bfloat16_kernels().pack_right({weights.values.data(), c.line()}, size, c.outputs,
                                grow(weights.packed, right_pairs(size, c.outputs)));
}

void ConvolutionStack::convolve(Scratch& work, const Convolution& c, ConstImage x, const Weights& w,
                                Image y, const Finish& finish) const {
  if (!bfloat16_) return kernels_.convolve(c, x, w.values.data(), y, finish);
  work.bfloat16.convolve(c, x, w.packed.data(), y, finish);
}

Image ConvolutionStack::behind(std::size_t s, int64_t image, Images& output) {
  return s + 1 < stages_.size() ? stages_[s + 1].input.inside(image) : output.hold(1).inside();
}

void ConvolutionStack::run_stage(Workspace& work, std::size_t s, int64_t image) {
  Stage& stage = stages_[s];
  const Convolution& c = stage.forward;
  const Image from = stage.input.whole(image), to = behind(s, image, work[s].output);
  const Weights& weights = stage.own.weights;
  const Finish finish{.bias = stage.own.bias.data(), .rectify = s + 1 < stages_.size()};
  if (!stage.pool) return convolve(work[s], c, from, weights, to, finish);
  const Image convolved = work[s].convolved.hold(1).inside();
  convolve(work[s], c, from, weights, convolved, {.bias = finish.bias});
  kernels_.pool(stage.height, stage.width, c.outputs, convolved, to, finish.rectify,
                stage.which_of(image));
}

const float* ConvolutionStack::forward(const float* row, const float* samples, int64_t rows) {
  rows_ = rows;
  for (Stage& stage : stages_) {
    load(stage, row, stage.own);
    stage.input.hold(rows);
    if (stage.pool) grow(stage.which, rows * stage.output_size() + kReadAhead);
  }
  for (Workspace& work : workspaces_) {
    for (Scratch& scratch : work) scratch.reads_finite = true;
  }
  const Stage& last = stages_.back();
  float* features = grow(features_, rows * last.output_size());
  for_each_image([&](Workspace& work, int64_t image) {
    to_channels_last(samples + image * size_of(sample_shape_), sample_shape_[0], sample_shape_[1],
                     sample_shape_[2], stages_[0].input.inside(image));
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      Images& input = stages_[s].input;
      const float* const values = input.whole(image).data;
      work[s].reads_finite &= !stages_[s].pool || kernels_.are_finite(values, input.size());
      run_stage(work, s, image);
    }
    transpose(work.back().output.values.data(), last.forward.outputs, last.height * last.width,
              last.forward.outputs, features + image * last.output_size(),
              last.height * last.width);
  });
  return features;
}

Image ConvolutionStack::delta_of(const Stage& stage, Images& output, Images& delta) {
  return stage.pool ? output.hold(1).inside() : delta.hold(1).inside();
}

void ConvolutionStack::take_features(const float* delta, Image to) const {
  const Stage& last = stages_.back();
  to_channels_last(delta, last.forward.outputs, last.height, last.width, to);
}

void ConvolutionStack::unpool(Stage& stage, int64_t image, Images& output, Images& delta) {
  if (!stage.pool) return;
  kernels_.unpool(stage.height, stage.width, stage.forward.outputs, output.values.data(),
                  stage.which_of(image), delta.hold(1).inside());
}

// The bias sums the deltas of a pooled output: the same sum, of fewer terms.
void ConvolutionStack::add_gradient(const Stage& stage, Image input, Images& output, Images& delta,
                                    Scratch& sums) {
  float* gradient = sums.gradient.data();
  if (bfloat16_) {
    sums.bfloat16.add_weight_gradient(stage.forward, input, delta.inside(), gradient);
  } else {
    kernels_.add_weight_gradient(stage.forward, input, delta.inside(), gradient);
  }
  add_pixels(delta_of(stage, output, delta), stage.height, stage.width, stage.forward.outputs,
             sums.bias_gradient.data());
}

// Adds an image's gradient to that of its workspace.
void ConvolutionStack::add_gradient(Stage& stage, int64_t image, Scratch& work) {
  const Image input = stage.input.whole(image);
  if (!stage.sums_by_output()) {
    unpool(stage, image, work.output, work.delta);
    return add_gradient(stage, input, work.output, work.delta, work);
  }
  kernels_.add_pooled_gradient(stage.forward, input, stage.gradient_of(image, work.output),
                               work.gradient_by_output.data(), work.pooled);
  add_pixels(work.output.inside(), stage.height, stage.width, stage.forward.outputs,
             work.bias_gradient.data());
}

bool ConvolutionStack::is_finite(std::size_t s, const float* row) const {
  const Convolution& c = stages_[s].forward;
  return std::ranges::all_of(workspaces_,
                             [&](const Workspace& work) { return work[s].reads_finite; }) &&
         kernels_.are_finite(row + stages_[s].weight, c.outputs * c.inputs * c.kernel * c.kernel);
}

// An image's delta from that of the stage to that of what it has read, behind the ReLU there.
void ConvolutionStack::take_back(Stage& stage, int64_t image, Scratch& work, Image to) {
  const Image gate = stage.input.inside(image);
  if (!stage.leaves_out) {
    return convolve(work, stage.backward, work.delta.whole(), stage.own.flipped, to,
                    {.gate = gate});
  }
  kernels_.take_back_pooled(stage.forward, stage.gradient_of(image, work.output),
                            stage.own.by_output.data(), gate, work.input_delta.hold(1).whole(), to,
                            work.pooled);
}

// Where gradients have been added by output, gradient <- those.
void ConvolutionStack::settle_gradients(Workspace& work) const {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    if (!stages_[s].sums_by_output()) continue;
    const Convolution& c = stages_[s].forward;
    for (int64_t i = 0; i < c.kernel; ++i) {
      transpose(work[s].gradient_by_output.data() + i * c.patch_line(), c.output_weights(),
                c.outputs, c.patch(), work[s].gradient.data() + i * c.patch() * c.line(), c.line());
    }
  }
}

void ConvolutionStack::clear_gradients(Workspace& work) const {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const Convolution& c = stages_[s].forward;
    work[s].gradient.assign(static_cast<std::size_t>(c.weights()), 0.0F);
    if (stages_[s].sums_by_output()) {
      work[s].gradient_by_output.assign(to_index(c.outputs * c.output_weights()), 0.0F);
    }
    work[s].bias_gradient.assign(static_cast<std::size_t>(c.line()), 0.0F);
  }
}

void ConvolutionStack::clear_gradients() {
  for (Workspace& work : workspaces_) clear_gradients(work);
}

const float* ConvolutionStack::weight_gradient(std::size_t s) {
  const Convolution& c = stages_[s].forward;
  const int64_t places = c.kernel * c.kernel, line = c.line();
  const float* from = workspaces_[0][s].gradient.data();
  float* to = grow(unpacked_, c.outputs * c.inputs * places);
  for (int64_t o = 0; o < c.outputs; ++o) {
    for (int64_t v = 0; v < c.inputs; ++v) {
      for (int64_t place = 0; place < places; ++place) {
        *to++ = from[(place * c.inputs + v) * line + o];
      }
    }
  }
  return unpacked_.data();
}

void ConvolutionStack::hand_over(const GradientTarget& target, std::size_t first) {
  for (std::size_t s = first; s < stages_.size(); ++s) {
    Scratch& sum = workspaces_[0][s];
    for (std::size_t thread = 1; thread < workspaces_.size(); ++thread) {
      const Scratch& part = workspaces_[thread][s];
      for (std::size_t i = 0; i < sum.gradient.size(); ++i) sum.gradient[i] += part.gradient[i];
      for (std::size_t i = 0; i < sum.bias_gradient.size(); ++i) {
        sum.bias_gradient[i] += part.bias_gradient[i];
      }
    }
    const Stage& stage = stages_[s];
    const Convolution& c = stage.forward;
    if (target.wants(stage.weight)) {
      target.add(stage.weight, weight_gradient(s), c.outputs * c.inputs * c.kernel * c.kernel);
    }
    if (target.wants(stage.bias)) target.add(stage.bias, sum.bias_gradient.data(), c.outputs);
  }
}

void ConvolutionStack::backward(const float* row, const float* delta,
                                const GradientTarget& target) {
  std::size_t first = 0;  // below it nobody uses a gradient
  const auto wanted = [&](const Stage& s) {
    return target.wants(s.weight) || target.wants(s.bias);
  };
  while (first < stages_.size() && !wanted(stages_[first])) ++first;
  if (first == stages_.size()) return;
  // Zeros times what is not finite are not zeros.
  for (std::size_t s = first; s < stages_.size(); ++s) {
    stages_[s].leaves_out = stages_[s].pool && !bfloat16_ && is_finite(s, row);
  }
  clear_gradients();
  for (std::size_t s = first + 1; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    if (stage.leaves_out) {
      load_by_output(stage.forward, row + stage.weight, stage.own.by_output);
    } else {
      load_flipped(stage, row, stage.own);
    }
  }
  if (target.samples != nullptr) return backward_samples(delta, *target.samples);
  for_each_image([&](Workspace& work, int64_t image) { retreat(work, image, delta, first); });
  for (Workspace& work : workspaces_) settle_gradients(work);
  hand_over(target, first);
}

// Adds an image's gradient to that of its workspace, down to stage `first`.
void ConvolutionStack::retreat(Workspace& work, int64_t image, const float* delta,
                               std::size_t first) {
  const Stage& last = stages_.back();
  take_features(delta + image * last.output_size(),
                delta_of(last, work.back().output, work.back().delta));
  for (std::size_t s = stages_.size(); s-- > first;) {
    add_gradient(stages_[s], image, work[s]);
    if (s == first) break;
    take_back(stages_[s], image, work[s],
              delta_of(stages_[s - 1], work[s - 1].output, work[s - 1].delta));
  }
}

void ConvolutionStack::backward_samples(const float* delta, SampleGradients& samples) {
  for (Workspace& work : workspaces_) {
    for (Scratch& scratch : work) scratch.clipped.clear();
  }
  for_each_image([&](Workspace& work, int64_t image) {
    clear_gradients(work);
    retreat(work, image, delta, 0);
    settle_gradients(work);
    double squared = 0;
    for (const Scratch& one : work) squared += one.clipped.squared(one.gradient, one.bias_gradient);
    const double scale = samples.settle(image, squared);
    for (Scratch& one : work) one.clipped.add(one.gradient, one.bias_gradient, scale);
  });
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    ClippedSum& sum = workspaces_[0][s].clipped;
    for (std::size_t share = 1; share < workspaces_.size(); ++share) {
      sum.add(workspaces_[share][s].clipped);
    }
    sum.write(samples.sum() + stages_[s].weight, samples.sum() + stages_[s].bias);
  }
}

}  // namespace hanse
