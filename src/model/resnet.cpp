// ResNet-18 in closed form.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "frozen_prefix.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "kernels/convolution_kernels.hpp"
#include "kernels/shares.hpp"
#include "layers/bfloat16_dense.hpp"
#include "layers/residual_block.hpp"
#include "makers.hpp"
#include "network_model.hpp"

namespace hanse {

namespace {

constexpr int64_t kStages = 4;
constexpr int64_t kBlocks = 2;  // of a stage

// Images in channels-last go through one layer after another, all of a batch through each, so that
// its weights, which are larger than the images in the later stages, are read once; but convolution
// and norm follow each other on as many images as stay in the cache.
//
// A training step keeps each convolution's input and output, an evaluation nothing.
class ResNet final : public NetworkModel, public CuttableNetwork {
 public:
  ResNet(const std::vector<int64_t>& sample_shape, int64_t channels, int64_t groups, LossPtr loss,
         bool in_bfloat16)
      : NetworkModel(std::move(loss)), groups_(groups) {
    if (in_bfloat16) bfloat16_.emplace();
    int64_t height = sample_shape[1], width = sample_shape[2];
    stem_.emplace(add("conv1", "bn1",
                      {.inputs = sample_shape[0],
                       .outputs = channels,
                       .height = height,
                       .width = width,
                       .kernel = 3,
                       .stride = 1,
                       .of_samples = true}));
    int64_t inputs = channels;
    for (int64_t stage = 0; stage < kStages; ++stage) {
      const int64_t outputs = channels << stage;
      for (int64_t block = 0; block < kBlocks; ++block) {
        const std::string name = fmt::format("layer{}.{}.", stage + 1, block);
        const bool reshapes = inputs != outputs;
        const SameConvolution::Size first{inputs, outputs, height, width, 3, reshapes ? 2 : 1};
        height = first.out_height();
        width = first.out_width();
        blocks_.push_back(
            {.first = add(name + "conv1", name + "bn1", first),
             .second = add(name + "conv2", name + "bn2", {outputs, outputs, height, width, 3, 1})});
        if (reshapes) {
          SameConvolution::Size pixel = first;
          pixel.kernel = 1;
          blocks_.back().shortcut.emplace(add(name + "downsample.0", name + "downsample.1", pixel));
        }
        inputs = outputs;
      }
    }
    features_ = representation_width_ = inputs;
    fc_weight_ = layout_.add("fc.weight", {outputs(), features_}, features_);
    fc_bias_ = layout_.add("fc.bias", {outputs()}, features_);
    add_layer_work(static_cast<double>(outputs() * features_));
  }

  int64_t evaluation_rows() const override { return 32; }

  // Whole blocks: a sample's bits do not depend on the images that go through a layer beside it.
  FrozenPart* freeze(const FreezeCase& c) override {
    frozen_.reset();
    MovingSlots moving(layout_, c.moves);
    const GradientTarget target{.step = &moving};
    if (stem_->wanted(target)) return nullptr;
    std::size_t blocks = 0;
    while (blocks < blocks_.size() && !blocks_[blocks].wanted(target)) ++blocks;
    const int64_t end =
        blocks == blocks_.size() ? fc_weight_ : blocks_[blocks].first.convolution.weight();
    frozen_.emplace(fmt::format("resnet18 {} of {} groups ", blocks, groups_),
                    std::span(c.row, to_index(end)), values_behind(blocks),
                    [this, row = c.row, blocks](const float* samples, int64_t rows, float* out) {
                      rows_ = rows;
                      keeps_ = false;
                      const float* x = pass(row, samples, blocks);
                      std::copy_n(x, rows * values_behind(blocks), out);
                    });
    frozen_blocks_ = blocks;
    return &*frozen_;
  }
  void take_frozen(FrozenValues& values, const FrozenPart&) override { frozen_->given = &values; }

 private:
  bool is_cut() const { return frozen_ && frozen_->given != nullptr; }

  // Values of a sample that the first blocks leave; all of them the means.
  int64_t values_behind(std::size_t blocks) const {
    if (blocks == blocks_.size()) return features_;
    return (blocks == 0 ? *stem_ : blocks_[blocks - 1].second).convolution.size().out_size();
  }

  NormedConvolution add(const std::string& name, const std::string& norm,
                        const SameConvolution::Size& size) {
    const int64_t places = size.kernel * size.kernel;
    const int64_t weight =
        layout_.add(name + ".weight", {size.outputs, size.inputs, size.kernel, size.kernel},
                    size.inputs * places);
    const int64_t gamma = layout_.add_constant(norm + ".weight", {size.outputs}, 1);
    const int64_t beta = layout_.add_constant(norm + ".bias", {size.outputs}, 0);
    add_layer_work(static_cast<double>(size.multiply_adds()), size.of_samples);
    return {
        SameConvolution(weight, size, fastest_family(), bfloat16_ ? &bfloat16_kernels() : nullptr),
        GroupNorm(gamma, beta, size.outputs, groups_, size.out_pixels()),
        {}};
  }

  // Calls f(share, first, end) for all rows, by as many of the layer's images as stay in the cache.
  template <class F>
  void for_each_part(const NormedConvolution& layer, F f) {
    const int64_t step = layer.convolution.images_at_once();
    if (std::ssize(scratch_.shares) < number_of_shares(rows_)) {
      scratch_.shares.resize(static_cast<std::size_t>(number_of_shares(rows_)));
    }
    in_shares(rows_, [&](int64_t share, int64_t first, int64_t end) {
      for (; first < end; first += step) {
        f(scratch_.shares[static_cast<std::size_t>(share)], first, std::min(end, first + step));
      }
    });
  }

  // Memory of `size` floats an image for what a layer leaves: in training its own, in evaluation
  // one that all layers share.
  float* hold(AlignedFloats& own, AlignedFloats& common, int64_t size) {
    return grow(keeps_ ? own : common, rows_ * size + kReadAhead);
  }

  // Makes the convolution's output and its statistics; then calls finish(image, output).
  template <class F>
  void pass(const float* row, NormedConvolution& layer, const float* x, AlignedFloats& common,
            F finish) {
    const int64_t size = layer.convolution.size().out_size();
    layer.convolution.load(row, scratch_);
    layer.norm.hold(rows_);
    float* sums = hold(layer.sums, common, size);
    for_each_part(layer, [&](ConvolutionScratch::Share& share, int64_t first, int64_t end) {
      layer.convolution.forward(x, first, end, sums, scratch_, share);
      for (int64_t image = first; image < end; ++image) {
        layer.norm.measure(row, sums + image * size, image);
        finish(image, sums + image * size);
      }
    });
  }

  const float* pass(const float* row, ResidualBlock& block, const float* x,
                    AlignedFloats& common_output) {
    const SameConvolution::Size& size = block.second.convolution.size();
    const int64_t out = size.out_size();
    float* inner = hold(block.inner, common_.inner, out);
    pass(row, block.first, x, common_.sums, [&](int64_t image, const float* sums) {
      block.first.norm.normalize(sums, image, nullptr, inner + image * out);
    });
    const float* straight = x;
    if (block.shortcut) {
      pass(row, *block.shortcut, x, common_.shortcut, [](int64_t, const float*) {});
      straight = (keeps_ ? block.shortcut->sums : common_.shortcut).data();
    }
    float* output = hold(block.output, common_output, out);
    pass(row, block.second, inner, common_.sums, [&](int64_t image, const float* sums) {
      GroupNorm& norm = block.second.norm;
      const float* other = straight + image * out;
      float* to = output + image * out;
      if (block.shortcut) {
        norm.normalize(sums, image, other, block.shortcut->norm, to);
      } else {
        norm.normalize(sums, image, other, to);
      }
    });
    return output;
  }

  // What the stem and the first blocks make of samples; all of them the means.
  const float* pass(const float* row, const float* images, std::size_t blocks) {
    const SameConvolution::Size& stem = stem_->convolution.size();
    float* samples = grow(samples_, rows_ * stem.in_size() + kReadAhead);
    for (int64_t image = 0; image < rows_; ++image) {
      to_channels_last(images + image * stem.in_size(), stem.inputs, stem.height, stem.width,
                       {samples + image * stem.in_size(), stem.inputs, stem.width * stem.inputs});
    }
    float* begin = hold(stem_output_, common_.output[0], stem.out_size());
    pass(row, *stem_, samples, common_.sums, [&](int64_t image, const float* sums) {
      stem_->norm.normalize(sums, image, nullptr, begin + image * stem.out_size());
    });
    return pass(row, begin, 0, blocks);
  }

  // The same of the blocks from `first` to `end`, from what those before them leave.
  const float* pass(const float* row, const float* x, std::size_t first, std::size_t end) {
    for (std::size_t b = first; b < end; ++b) {
      x = pass(row, blocks_[b], x, common_.output[(b + 1) % 2]);
    }
    return end == blocks_.size() ? take_mean(x) : x;
  }

  float* forward(const float* row, const Batch& batch, RandomStream* noise) override {
    const std::size_t n = blocks_.size(), first = is_cut() ? frozen_blocks_ : 0;
    const float* begin = is_cut() ? frozen_->gathered(batch, kReadAhead) : nullptr;
    rows_ = batch.rows;
    keeps_ = noise != nullptr;
    if (!is_cut()) {
      pass(row, batch.features, n);
    } else if (first < n) {
      pass(row, begin, first, n);
    } else {
      std::copy_n(begin, rows_ * features_, grow(means_, rows_ * features_));
    }
    float* logits = grow(logits_, rows_ * outputs());
    repeat_row(row + fc_bias_, rows_, outputs(), logits);
    const float* weight = row + fc_weight_;
    if (bfloat16_) {
      bfloat16_->add_product(rows_, outputs(), features_, means_.data(), weight, logits);
    } else {
      add_product(rows_, outputs(), features_, means_.data(), weight, logits);
    }
    return logits;
  }

  const float* representation() override { return means_.data(); }

  // means_ [rows, features] <- the means of x over the pixels.
  const float* take_mean(const float* x) {
    const SameConvolution::Size& last = blocks_.back().second.convolution.size();
    const int64_t line = last.out_line(), pixels = last.out_pixels();
    float* means = grow(means_, rows_ * features_);
    for (int64_t image = 0; image < rows_; ++image, means += features_) {
      sum_pixels(x + image * last.out_size(), pixels, line, means);
    }
    return means_.data();
  }
  void sum_pixels(const float* x, int64_t pixels, int64_t line, float* __restrict mean) const {
    std::fill_n(mean, features_, 0.0F);
    for (int64_t pixel = 0; pixel < pixels; ++pixel, x += line) {
      for (int64_t c = 0; c < features_; ++c) mean[c] += x[c];
    }
    for (int64_t c = 0; c < features_; ++c) mean[c] /= static_cast<float>(pixels);
  }

  // Goes back through both layers from the delta d of the norm's output, with the ReLU's output y
  // or null: d <- 0 where y <= 0, dy <- the delta between them, dx += that of x, or <- where
  // `clear`, unless dx is null.
  void take_back(const float* row, NormedConvolution& layer, const float* x, const float* y,
                 float* d, float* dy, float* dx, bool clear, const GradientTarget& target) {
    const SameConvolution& convolution = layer.convolution;
    const SameConvolution::Size& size = convolution.size();
    const bool wanted = target.wants(convolution.weight());
    if (dx != nullptr) convolution.load_transposed(row, scratch_);
    for (ConvolutionScratch::Share& share : scratch_.shares) {
      if (wanted) convolution.clear_gradient(share);
    }
    for_each_part(layer, [&](ConvolutionScratch::Share& share, int64_t first, int64_t end) {
      for (int64_t image = first; image < end; ++image) {
        const int64_t at = image * size.out_size();
        layer.norm.backward(row, layer.sums.data() + at, image, y != nullptr ? y + at : nullptr,
                            d + at, dy + at);
      }
      if (dx == nullptr && !wanted) return;
      if (dx != nullptr && clear) {
        std::fill(dx + first * size.in_size(), dx + end * size.in_size(), 0.0F);
      }
      convolution.backward(x, dy, first, end, dx, wanted, scratch_, share);
    });
    if (wanted) convolution.hand_over(target, number_of_shares(rows_), scratch_);
    layer.norm.hand_over(target, rows_);
  }

  // Turns deltas_.output from the delta of the block's output into that of its input x.
  void take_back(const float* row, ResidualBlock& block, const float* x, bool below_wanted,
                 const GradientTarget& target) {
    const int64_t in = rows_ * block.first.convolution.size().in_size();
    const int64_t out = rows_ * block.second.convolution.size().out_size();
    const auto memory = [&](AlignedFloats& buffer, int64_t size) {
      return grow(buffer, size + kReadAhead);
    };
    float* delta = memory(deltas_.output, out);
    float* inner_delta = memory(deltas_.inner, out);
    const bool first_wanted = below_wanted || block.first.wanted(target);
    take_back(row, block.second, block.inner.data(), block.output.data(), delta,
              memory(deltas_.sums, out), first_wanted ? inner_delta : nullptr, true, target);
    float* to = delta;
    if (block.shortcut) {
      to = memory(deltas_.input, in);
      if (below_wanted || block.shortcut->wanted(target)) {
        take_back(row, *block.shortcut, x, nullptr, delta, delta, below_wanted ? to : nullptr, true,
                  target);
      }
    }
    if (first_wanted) {
      take_back(row, block.first, x, block.inner.data(), inner_delta, inner_delta,
                below_wanted ? to : nullptr, false, target);
    }
    if (block.shortcut) std::swap(deltas_.output, deltas_.input);
  }

  void backward(const float* row, const Batch&, const GradientTarget& target) override {
    const float* delta = logits_.data();
    float* of_means = grow(mean_delta_, rows_ * features_);
    const WeightGradient weight{.offset = fc_weight_,
                                .out = outputs(),
                                .in = features_,
                                .samples = rows_,
                                .deltas = delta,
                                .inputs = means_.data()};
    if (bfloat16_) {
      bfloat16_->add_gradient(weight, row + fc_weight_, target, of_means);
    } else {
      multiply(rows_, features_, outputs(), 1, {delta, outputs()}, {row + fc_weight_, features_}, 0,
               of_means, features_);
      target.add(weight);
    }
    sum_rows(delta, rows_, outputs(), grow(bias_delta_, outputs()));
    target.add(fc_bias_, bias_delta_.data(), outputs());

    // Blocks below `first` are not wanted, nor is the stem unless it is 0 or less.
    const auto n = static_cast<std::size_t>(std::ssize(blocks_));
    const bool stem_wanted = !is_cut() && stem_->wanted(target);
    std::size_t first = is_cut() ? frozen_blocks_ : 0;
    if (is_cut()) add_zeros(layout_, frozen_->parameters(), target);
    while (!stem_wanted && first < n && !blocks_[first].wanted(target)) ++first;
    if (first == n) return;
    add_representation_delta(of_means);
    spread(of_means);
    for (std::size_t b = n; b-- > first;) {
      const float* x = is_cut() && b == frozen_blocks_ ? frozen_->last()
                       : b > 0                         ? blocks_[b - 1].output.data()
                                                       : stem_output_.data();
      take_back(row, blocks_[b], x, b > first || stem_wanted, target);
    }
    if (stem_wanted) {
      take_back(row, *stem_, samples_.data(), stem_output_.data(), deltas_.output.data(),
                deltas_.output.data(), nullptr, false, target);
    }
  }

  // deltas_.output <- the delta of the last block's pixels, from that of their means.
  void spread(const float* of_means) {
    const SameConvolution::Size& last = blocks_.back().second.convolution.size();
    const int64_t line = last.out_line(), pixels = last.out_pixels();
    float* to = grow(deltas_.output, rows_ * last.out_size() + kReadAhead);
    for (int64_t image = 0; image < rows_; ++image, of_means += features_) {
      for (int64_t pixel = 0; pixel < pixels; ++pixel, to += line) {
        for (int64_t c = 0; c < features_; ++c) to[c] = of_means[c] / static_cast<float>(pixels);
        std::fill(to + features_, to + line, 0.0F);
      }
    }
  }

  int64_t groups_;
  std::optional<Bfloat16Dense> bfloat16_;  // the last layer's products; none: all in float32
  std::optional<NormedConvolution> stem_;
  std::vector<ResidualBlock> blocks_;
  int64_t features_ = 0, fc_weight_ = 0, fc_bias_ = 0;

  std::optional<FrozenPrefix> frozen_;
  std::size_t frozen_blocks_ = 0;  // of it, behind the stem

  int64_t rows_ = 0;
  bool keeps_ = false;  // what backward() needs
  ConvolutionScratch scratch_;
  AlignedFloats samples_, stem_output_;
  struct {
    AlignedFloats sums, shortcut, inner, output[2];
  } common_;                               // of all layers in an evaluation
  AlignedFloats means_, logits_;           // [rows, features], [rows, outputs]
  AlignedFloats mean_delta_, bias_delta_;  // [rows, features], [outputs]
  struct {
    AlignedFloats output, inner, sums, input;
  } deltas_;  // of a block's images
};

}  // namespace

std::unique_ptr<Model> make_resnet18(const ModelCase& c) {
  if (c.sample_shape.size() != 3) refuse_shape(c, "{channels, height, width}");
  const int64_t channels = c.options.channels, groups = c.options.groups;
  if (channels < 1 || groups < 1 || channels % groups != 0) {
    throw InvalidArgument(fmt::format("{} groups do not divide {} channels", groups, channels),
                          "model.groups");
  }
  return std::make_unique<ResNet>(c.sample_shape, channels, groups, c.loss, is_bfloat16(c.options));
}

}  // namespace hanse
