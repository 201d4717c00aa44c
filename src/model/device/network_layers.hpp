// What the layers of a NetworkGradient consist of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/ATen.h>

#include "device/step_gradient.hpp"
#include "device/work.hpp"

namespace hanse {

// How each convolution of such a network unrolls.
inline std::vector<Patches> patches_of(const NetworkSpec& spec,
                                       const std::vector<int64_t>& sample_shape) {
  std::vector<Patches> patches;
  if (spec.stages.empty()) return patches;
  int64_t channels = sample_shape[0], height = sample_shape[1], width = sample_shape[2];
  for (const ConvolutionStage& stage : spec.stages) {
    const Patches& of =
        patches.emplace_back(Patches{channels, height, width, stage.kernel, stage.padding});
    channels = stage.channels;
    height = of.out_height() / (stage.pool ? 2 : 1);
    width = of.out_width() / (stage.pool ? 2 : 1);
  }
  return patches;
}

// A layer's tensors, on the memory of the rows and of their gradient.
struct LayerTensors {
  at::Tensor weight, weight_gradient;  // [C, outputs, inputs]
  at::Tensor bias, bias_gradient;      // [C, outputs]; undefined: none

  const float* first_bias() const { return bias.defined() ? bias.data_ptr<float>() : nullptr; }
  int64_t bias_stride() const { return bias.defined() ? bias.stride(0) : 0; }
};

// Takes the layers' tensors one after the other, in the layout's order.
class LayerReader {
 public:
  explicit LayerReader(const StepParts& parts) : rows_(parts.rows), gradients_(parts.gradients) {}

  LayerTensors next(bool bias) {
    LayerTensors layer{.weight = rows_[next_].flatten(2),
                       .weight_gradient = gradients_[next_].flatten(2)};
    ++next_;
    if (!bias) return layer;
    layer.bias = rows_[next_];
    layer.bias_gradient = gradients_[next_];
    ++next_;
    return layer;
  }

 private:
  std::vector<at::Tensor> rows_, gradients_;
  std::size_t next_ = 0;
};

// What a layer makes of its input: [C, B, width].
struct Activation {
  at::Tensor values, delta;  // delta: the gradient

  Activation(int64_t clients, int64_t batch, int64_t width, const at::TensorOptions& options)
      : values(at::empty({clients, batch, width}, options)), delta(at::empty_like(values)) {}
};

// A stage of convolution, pooling and ReLU. A client's batch is cut into `parts`.
struct ConvolutionLayer {
  LayerTensors own;
  int64_t parts;
  at::Tensor columns;  // [C parts, inputs taps, B/parts pixels] in the memory of all stages
  at::Tensor sums;     // [C parts, outputs, B/parts pixels]
  at::Tensor chosen;   // Pooling::chosen
  at::Tensor weights;  // [C parts, outputs, inputs taps], undefined: one part has them as they are
  at::Tensor found;    // their gradients
  Activation output;
  ColumnsWork unroll;
  PoolWork pool;
  UnpoolWork unpool;
  std::optional<ImagesWork> images;  // the gradient of what the stage reads; not of the first one
  SpreadWork spread = {};            // the weights
  GatherWork gather = {};            // their gradients
};

// Into how many parts a client's batch is cut so that the gradient of a convolution's weights, a
// small matrix that is a sum over all pixels of all samples, keeps a GPU busy: tiles of 64 x 64
// weights for it to fill, but no sums of few pixels. It divides the batch.
inline int64_t parts_of(int64_t batch, const Patches& of, int64_t outputs) {
  constexpr int64_t kTile = 64, kTiles = 32, kLeastPixels = 128;
  const int64_t tiles = ((outputs + kTile - 1) / kTile) * ((of.rows() + kTile - 1) / kTile);
  int64_t parts = 1;
  for (int64_t next = 2; next <= batch && parts * tiles < kTiles; ++next) {
    if (batch % next == 0 && batch / next * of.out_pixels() >= kLeastPixels) parts = next;
  }
  return parts;
}

struct DenseLayer {
  LayerTensors own;
  at::Tensor input;        // [C, B, inputs]; undefined: the head reads samples where they are
  at::Tensor input_delta;  // its gradient; undefined: the samples'
  Activation output;       // of the last layer logits, then their gradient
  at::Tensor found;  // [C, parts, B, outputs] sums over parts of the inputs; undefined: no parts
  ProductWork multiply = {};
  GatherWork gather = {};  // the sums, of the last layer
  UnitsWork forward = {};  // ReLU and dropout, of all but the last
  UnitsBackWork backward = {};
};

// Values of the largest factor of these layers' products.
inline int64_t largest_factor(const std::vector<ConvolutionLayer>& stages,
                              const std::vector<DenseLayer>& dense) {
  int64_t most = 0;
  const auto look_at = [&](const at::Tensor& factor) {
    if (factor.defined()) most = std::max(most, factor.numel());
  };
  for (const ConvolutionLayer& stage : stages) {
    look_at(stage.columns);
    look_at(stage.sums);
    look_at(stage.own.weight);
    look_at(stage.weights);
  }
  for (const DenseLayer& layer : dense) {
    look_at(layer.input);
    look_at(layer.own.weight);
    look_at(layer.output.values);
  }
  return most;
}

// The kernels of a network's head.
struct Head {
  at::Tensor found;  // LogitsWork's
  LogitsWork logits;
  HeadWork rest;  // without its LossWork
};

// The head on the last layer, with the units of the dense one below it (null: none). Without an
// input it reads the samples [samples, inputs] at their places [C, B].
inline Head head_of(const DenseLayer& last, const DenseLayer* below, const at::Tensor& samples,
                    const at::Tensor& places, int64_t batch) {
  const at::Tensor& weight = last.own.weight;
  const at::Tensor& input = last.input.defined() ? last.input : samples;
  const int64_t clients = weight.size(0), units = weight.size(1);
  const HeadLayer layer{.batch = static_cast<int32_t>(batch),
                        .units = static_cast<int32_t>(units),
                        .inputs = static_cast<int32_t>(weight.size(2)),
                        .by_place = !last.input.defined(),
                        .places = places.data_ptr<int64_t>(),
                        .input = input.data_ptr<float>(),
                        .weights = weight.data_ptr<float>(),
                        .stride = weight.stride(0)};
  const bool has_relu = below != nullptr;
  const at::Tensor found = at::empty({clients, layer.slices(), batch, units}, weight.options());
  return {.found = found,
          .logits = {.layer = layer,
                     .slices = layer.slices(),
                     .unit_tiles = LogitsWork::unit_tiles_of(units),
                     .has_relu = has_relu,
                     .below = has_relu ? below->forward : UnitsWork{},
                     .found = found.data_ptr<float>()},
          .rest = {.layer = layer,
                   .blocks_each = HeadWork::blocks_of(layer),
                   .loss = {},
                   .weight_gradient = last.own.weight_gradient.data_ptr<float>(),
                   .input_delta =
                       last.input_delta.defined() ? last.input_delta.data_ptr<float>() : nullptr,
                   .has_relu = has_relu,
                   .back = has_relu ? below->backward : UnitsBackWork{}}};
}

}  // namespace hanse
