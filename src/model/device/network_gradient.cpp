#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "device/factor_products.hpp"
#include "device/kernels.hpp"
#include "device/network_layers.hpp"
#include "device/step_gradient.hpp"

namespace hanse {

namespace {

// Floats of the convolution that unrolls to the most.
int64_t most_columns(const std::vector<Patches>& patches, const StepParts& parts) {
  int64_t most = 0;
  for (const Patches& of : patches) {
    most = std::max(most, parts.clients * parts.batch * of.rows() * of.out_pixels());
  }
  return most;
}

// Whether each activation, and each layer's weights, have less than 2^31 values, which is what
// kernels count to.
bool has_countable_layers(const std::vector<Patches>& patches, const StepParts& parts,
                          const NetworkSpec& spec) {
  int64_t widest = size_of(parts.features.sizes().slice(1).vec());
  for (std::size_t s = 0; s < patches.size(); ++s) {
    widest = std::max(widest, spec.stages[s].channels * patches[s].out_pixels());
  }
  for (const int64_t units : spec.hidden) widest = std::max(widest, units);
  int64_t weights = 0;
  for (const at::Tensor& row : parts.rows) weights = std::max(weights, row[0].numel());
  const int64_t most = std::max(parts.batch * widest, weights);
  return most <= std::numeric_limits<int32_t>::max() / parts.clients;
}

// A dense layer finds its sums in parts where they have kLongSum inputs or more, and kFewUnits
// times as many as units.
constexpr int64_t kLongSum = 512, kFewUnits = 3;

class NetworkGradient final : public StepGradient {
 public:
  NetworkGradient(const StepParts& parts, const NetworkSpec& spec,
                  const std::vector<Patches>& patches)
      : clients_(parts.clients),
        batch_(parts.batch),
        narrow_(parts.narrow),
        step_loss_(parts.plain ? nullptr : &parts.step_loss),
        floats_(parts.features.options()),
        features_(parts.features),
        places_(parts.table.places()),
        columns_(at::empty({most_columns(patches, parts)}, floats_)) {
    LayerReader reader(parts);
    auto masks = parts.noise.masks();
    const auto take_mask = [&](double share) {
      if (share <= 0) return at::Tensor();
      const at::Tensor mask = masks.front();
      masks = masks.subspan(1);
      return mask;
    };
    for (std::size_t s = 0; s < patches.size(); ++s) {
      const bool is_last = s + 1 == patches.size();
      add_stage(patches[s], spec.stages[s], reader.next(true),
                is_last ? take_mask(spec.feature_dropout) : at::Tensor());
    }
    for (std::size_t i = 0; i <= spec.hidden.size(); ++i) {
      const bool is_last = i == spec.hidden.size();
      add_dense(reader.next(spec.bias), is_last ? at::Tensor() : take_mask(spec.hidden_dropout),
                is_last);
    }
    if (parts.plain) set_loss(parts);
    products_ = FactorProducts(narrow_, largest_factor(stages_, dense_), floats_);
  }

  at::Tensor find(int64_t clients, const StepTotals& totals) override {
    const at::NoGradGuard no_grad;
    acting_ = clients;
    forward();
    if (step_loss_ != nullptr) {
      const at::Tensor means = differentiate(totals);
      backward();
      return means;
    }
    const auto room = [](const at::Tensor& total) {
      return total.defined() ? total.data_ptr<double>() : nullptr;
    };
    loss_.totals = room(totals.losses);
    loss_.squares = room(totals.squares);
    if (head_) {
      head_->rest.loss = loss_;
      on_device(head_->logits, head_->logits.blocks(clients));
      on_device(head_->rest, head_->rest.blocks(clients));
    } else {
      on_device(loss_, clients);
    }
    backward();
    return acting(means_);
  }

 private:
  template <class One>
  void on_device(const One& work, int64_t items) const {
    run(work, items, floats_.device());
  }
  template <class One>
  void on_device(const One& work) const {
    on_device(work, work.items(acting_));
  }

  // The part of those who take part, of [C parts, ...].
  at::Tensor acting(const at::Tensor& of_all, int64_t parts = 1) const {
    return of_all.narrow(0, 0, acting_ * parts);
  }

  static float* data(const at::Tensor& values) {
    return values.defined() ? values.data_ptr<float>() : nullptr;
  }

  void add_stage(const Patches& of, const ConvolutionStage& stage, LayerTensors own,
                 const at::Tensor& mask) {
    const int64_t window = stage.pool ? 2 : 1;
    const int64_t out_width = of.out_width() / window;
    const int64_t out_pixels = of.out_height() / window * out_width;
    const int64_t width = stage.channels * out_pixels;
    const bool is_first = stages_.empty();
    const Activation output(clients_, batch_, width, floats_);
    const at::Tensor chosen = at::empty({clients_, batch_, width}, floats_.dtype(at::kByte));
    const int64_t most = parts_of(batch_, of, stage.channels);
    const int64_t parts = can_be_counted(most * stage.channels * of.rows()) ? most : 1;
    const int64_t per = batch_ / parts;
    const at::Tensor sums =
        at::empty({clients_ * parts, stage.channels, per * of.out_pixels()}, floats_);
    const Pooling pooling{.channels = stage.channels,
                          .per = per,
                          .width = of.out_width(),
                          .pixels = of.out_pixels(),
                          .out_width = out_width,
                          .out_pixels = out_pixels,
                          .window = window,
                          .batch = batch_,
                          .sums = data(sums),
                          .mask = data(mask),
                          .chosen = chosen.data_ptr<uint8_t>(),
                          .bias = own.first_bias(),
                          .bias_stride = own.bias_stride()};
    const PatchColumns columns(of, per);
    float* bias_gradient = data(own.bias_gradient);
    ConvolutionLayer layer{
        .own = std::move(own),
        .parts = parts,
        .columns = columns_.narrow(0, 0, clients_ * batch_ * of.rows() * of.out_pixels())
                       .view({clients_ * parts, of.rows(), per * of.out_pixels()}),
        .sums = sums,
        .chosen = chosen,
        .weights = {},
        .found = {},
        .output = output,
        .unroll = {.of = columns,
                   .batch = batch_,
                   .images = data(is_first ? features_ : stages_.back().output.values),
                   .places = is_first ? places_.data_ptr<int64_t>() : nullptr,
                   .columns = data(columns_)},
        .pool = {pooling, batch_, data(output.values)},
        .unpool = {pooling, batch_, data(output.delta), bias_gradient},
        .images = {}};
    if (!is_first) {
      layer.images = ImagesWork{columns, batch_, data(columns_), data(stages_.back().output.delta)};
    }
    if (parts > 1) cut(layer);
    stages_.push_back(std::move(layer));
  }

  // Whether kernels can count so many values of each client.
  bool can_be_counted(int64_t values) const {
    return values <= std::numeric_limits<int32_t>::max() / clients_;
  }

  // Gives each part weights and gradients of its own.
  void cut(ConvolutionLayer& layer) const {
    const LayerTensors& own = layer.own;
    layer.weights =
        at::empty({clients_ * layer.parts, own.weight.size(1), own.weight.size(2)}, floats_);
    layer.found = at::empty_like(layer.weights);
    const int64_t n = own.weight[0].numel();
    const auto parts = static_cast<int32_t>(layer.parts);
    layer.spread = {n, parts, data(own.weight), own.weight.stride(0), data(layer.weights)};
    layer.gather = {n, parts, data(layer.found), data(own.weight_gradient),
                    own.weight_gradient.stride(0)};
  }

  // Adds a dense layer on the last stage, the last dense layer or the samples.
  void add_dense(LayerTensors own, const at::Tensor& mask, bool is_last) {
    const Activation* below = !dense_.empty()    ? &dense_.back().output
                              : !stages_.empty() ? &stages_.back().output
                                                 : nullptr;
    const int64_t units = own.weight.size(1), inputs = own.weight.size(2);
    const bool is_head =
        !narrow_ && step_loss_ == nullptr && is_last && HeadLayer::fits(batch_, units, inputs);
    if (below == nullptr && !is_head) {
      samples_ = at::empty({clients_, batch_, inputs}, floats_);
      take_samples_ = {.width = inputs,
                       .batch = batch_,
                       .features = data(features_),
                       .places = places_.data_ptr<int64_t>(),
                       .values = data(samples_)};
    }
    const Activation output(clients_, batch_, units, floats_);
    const UnitsWork forward{.batch = batch_,
                            .units = units,
                            .parts = 1,
                            .found = data(output.values),
                            .values = data(output.values),
                            .mask = data(mask),
                            .bias = own.first_bias(),
                            .bias_stride = own.bias_stride()};
    const UnitsBackWork backward{.units = units,
                                 .batch = static_cast<int32_t>(batch_),
                                 .values = data(output.values),
                                 .mask = data(mask),
                                 .delta = data(output.delta),
                                 .bias_gradient = data(own.bias_gradient),
                                 .bias_stride = own.bias_stride()};
    DenseLayer layer{.own = std::move(own),
                     .input = below != nullptr ? below->values : samples_,
                     .input_delta = below != nullptr ? below->delta : at::Tensor(),
                     .output = output,
                     .found = {},
                     .forward = forward,
                     .backward = backward};
    if (is_head) {
      head_ = head_of(layer, dense_.empty() ? nullptr : &dense_.back(), features_, places_, batch_);
    }
    const bool is_long = !narrow_ && !is_head && inputs >= kLongSum && inputs >= kFewUnits * units;
    if (is_long && can_be_counted(ProductWork::parts_of(inputs) * batch_ * units)) cut(layer);
    dense_.push_back(std::move(layer));
  }

  // Has its long sums found in parts.
  void cut(DenseLayer& layer) const {
    const at::Tensor& weight = layer.own.weight;
    const int64_t units = weight.size(1), inputs = weight.size(2);
    const int64_t parts = ProductWork::parts_of(inputs), n = batch_ * units;
    layer.found = at::empty({clients_, parts, batch_, units}, floats_);
    layer.multiply = {.parts = parts,
                      .tiles = ProductWork::tiles_of(units),
                      .batch = static_cast<int32_t>(batch_),
                      .units = static_cast<int32_t>(units),
                      .inputs = static_cast<int32_t>(inputs),
                      .input = data(layer.input),
                      .weights = data(weight),
                      .stride = weight.stride(0),
                      .found = data(layer.found)};
    layer.gather = {n, static_cast<int32_t>(parts), data(layer.found), data(layer.output.values),
                    n};
    layer.forward.parts = static_cast<int32_t>(parts);
    layer.forward.found = data(layer.found);
  }

  void set_loss(const StepParts& parts) {
    const DenseLayer& last = dense_.back();
    const bool labels = parts.targets.scalar_type() == at::kInt;
    means_ = at::empty({clients_}, floats_.dtype(at::kDouble));
    loss_ = {.rule = parts.loss->rule().value(),
             .batch = batch_,
             .outputs = last.own.weight.size(1),
             .counts = parts.table.counts().data_ptr<int64_t>(),
             .places = places_.data_ptr<int64_t>(),
             .labels = labels ? parts.targets.data_ptr<int32_t>() : nullptr,
             .targets = labels ? nullptr : parts.targets.data_ptr<float>(),
             .bias = last.own.first_bias(),
             .bias_gradient = data(last.own.bias_gradient),
             .bias_stride = last.own.bias_stride(),
             .parts = head_ ? head_->rest.layer.slices() : 1,
             .found = data(head_ ? head_->found : last.output.values),
             .logits = data(last.output.values),
             .means = means_.data_ptr<double>(),
             .totals = nullptr,
             .squares = nullptr};
  }

  // Goes up to the logits, without their bias.
  void forward() {
    for (ConvolutionLayer& stage : stages_) {
      on_device(stage.unroll);
      if (stage.parts > 1) on_device(stage.spread);
      product(weights(stage), acting(stage.columns, stage.parts), stage.sums);
      on_device(stage.pool);
    }
    if (samples_.defined()) on_device(take_samples_);
    for (const DenseLayer& layer : dense_) {
      if (is_last(layer) && head_) continue;
      multiply(layer);
      if (is_last(layer)) {
        if (layer.found.defined()) on_device(layer.gather);
      } else if (!is_below_head(layer)) {
        on_device(layer.forward);
      }
    }
  }

  // Overwrites the logits by the gradient of a loss that LossWork does not know, of which it
  // returns the means, and finds that of their bias.
  at::Tensor differentiate(const StepTotals& totals) {
    const LayerTensors& own = dense_.back().own;
    at::Tensor z = acting(dense_.back().output.values);
    const bool biased = own.bias.defined();
    const auto found = step_loss_->differentiate(biased ? z + acting(own.bias).unsqueeze(1) : z,
                                                 {0, acting_, batch_}, totals);
    z.copy_(found.delta);
    if (biased) acting(own.bias_gradient).copy_(z.sum({1}));
    return found.means;
  }

  // Goes back from the gradient of the logits, which stands in their place.
  void backward() {
    at::Tensor delta = acting(dense_.back().output.values);
    for (auto layer = dense_.rbegin(); layer != dense_.rend(); ++layer) {
      if (is_last(*layer) && head_) continue;
      if (!is_last(*layer)) {
        delta = acting(layer->output.delta);
        if (!is_below_head(*layer)) on_device(layer->backward);
      }
      product(delta.transpose(1, 2), acting(layer->input), layer->own.weight_gradient);
      if (layer->input_delta.defined()) {
        product(delta, acting(layer->own.weight), layer->input_delta);
      }
    }
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      on_device(stage->unpool, acting_ * stage->own.weight.size(1));
      if (stage != stages_.rbegin()) on_device(stage->unroll);  // the columns are a later stage's
      const at::Tensor sums = acting(stage->sums, stage->parts);
      const at::Tensor turned = acting(stage->columns, stage->parts).transpose(1, 2);
      product(sums, turned, stage->parts > 1 ? stage->found : stage->own.weight_gradient);
      if (stage->parts > 1) on_device(stage->gather);
      if (!stage->images) continue;
      product(weights(*stage).transpose(1, 2), sums, stage->columns);
      on_device(*stage->images);
    }
  }

  bool is_last(const DenseLayer& layer) const { return &layer == &dense_.back(); }
  bool is_below_head(const DenseLayer& layer) const {
    return head_ && &layer + 1 == &dense_.back();
  }

  void multiply(const DenseLayer& layer) const {
    if (layer.found.defined()) {
      on_device(layer.multiply, layer.multiply.blocks(acting_));
    } else {
      product(acting(layer.input), acting(layer.own.weight).transpose(1, 2), layer.output.values);
    }
  }

  // [acting C parts, outputs, inputs taps]
  at::Tensor weights(const ConvolutionLayer& stage) const {
    return stage.parts > 1 ? acting(stage.weights, stage.parts) : acting(stage.own.weight);
  }

  // Overwrites the acting clients' part of [C parts, ...].
  void product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& of_all) const {
    at::Tensor out = of_all.narrow(0, 0, a.size(0));
    products_.multiply(out, a, b);
  }

  int64_t clients_, batch_;
  bool narrow_;          // factors of products in bfloat16; our own kernels have none
  StepLoss* step_loss_;  // null: LossWork
  FactorProducts products_{false, 0, {}};
  int64_t acting_ = 0;  // those whose gradient is being found
  at::TensorOptions floats_;
  at::Tensor features_;  // StepParts
  at::Tensor places_;    // [C B]
  at::Tensor columns_;   // of the stage that has most
  at::Tensor samples_;   // [C, B, values]; undefined: they are read where they are
  std::vector<ConvolutionLayer> stages_;
  std::vector<DenseLayer> dense_;
  at::Tensor means_;  // [C] float64
  SamplesWork take_samples_ = {};
  LossWork loss_ = {};
  std::optional<Head> head_;  // of the last layer with its loss, where it is small
};

}  // namespace

std::unique_ptr<StepGradient> make_network_gradient(const StepParts& parts, const NetworkSpec& spec,
                                                    const std::vector<int64_t>& sample_shape) {
  const std::vector<Patches> patches = patches_of(spec, sample_shape);
  if (!parts.loss->rule() || most_columns(patches, parts) > kMostColumns) return nullptr;
  if (!has_countable_layers(patches, parts, spec)) return nullptr;
  return std::make_unique<NetworkGradient>(parts, spec, patches);
}

}  // namespace hanse
