// The models of convolutions and dense layers: the cnn kinds and lenet.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "frozen_prefix.hpp"
#include "hanse/base/index.hpp"
#include "layers/convolution.hpp"
#include "layers/dense.hpp"
#include "makers.hpp"
#include "network_model.hpp"
#include "network_spec.hpp"

namespace hanse {

namespace {

class ConvolutionalModel final : public NetworkModel, public CuttableNetwork {
 public:
  ConvolutionalModel(const NetworkSpec& spec, const std::vector<int64_t>& sample_shape,
                     LossPtr loss, bool in_bfloat16)
      : NetworkModel(std::move(loss)),
        convolutions_(layout_, spec.stages, sample_shape, convolution_kernels(), in_bfloat16),
        n_convolutions_(layout_.n_params()),
        head_(layout_, head_widths(spec, sample_shape),
              {.rectify_input = true,
               .input_dropout = spec.feature_dropout,
               .hidden_dropout = spec.hidden_dropout,
               .bfloat16 = in_bfloat16}) {
    representation_width_ = head_.last_width();
    bool reads_samples = true;
    for (const int64_t products : convolutions_.products()) {
      add_layer_work(static_cast<double>(products), reads_samples);
      reads_samples = false;
    }
    const std::vector<int64_t> widths = head_widths(spec, sample_shape);
    for (std::size_t i = 1; i < widths.size(); ++i) {
      add_layer_work(static_cast<double>(widths[i - 1] * widths[i]));
    }
  }

  int64_t record_product_cost(int64_t rows) const override {
    const int64_t head = head_.record_product_cost(rows);
    return head == 0 ? 0 : head + n_convolutions_;
  }

  // Few enough that the head's activations stay in the cache.
  int64_t evaluation_rows() const override { return 32; }

  bool has_hessian() const override { return head_.has_tangents(); }

  void hessian_vector(std::span<const float> row, const Batch& batch, std::span<const float> v,
                      std::span<float> out) override {
    const float* whole = convolutions_.forward(row.data(), batch.features, batch.rows);
    float* delta = head_.forward(row.data(), whole, batch.rows, nullptr);
    loss().loss_and_delta(batch, delta);
    const float* features = convolutions_.forward_tangent(row.data(), v.data());
    float* tangent = head_.forward_tangent(row.data(), v.data(), features);
    loss().delta_tangent(batch, delta, tangent);
    const auto below = head_.backward_tangent(row.data(), v.data(), tangent, out.data());
    convolutions_.backward_tangent(below.delta, below.tangent, out.data());
  }

 private:
  std::vector<int64_t> head_widths(const NetworkSpec& spec,
                                   const std::vector<int64_t>& sample_shape) const {
    std::vector<int64_t> widths = {output_values(spec.stages, sample_shape)};
    widths.insert(widths.end(), spec.hidden.begin(), spec.hidden.end());
    widths.push_back(loss().outputs());
    return widths;
  }

  // The convolutions, of which a sample goes through all alone.
  FrozenPart* freeze(const FreezeCase& c) override {
    frozen_.reset();
    const MovingSlots moving(layout_, c.moves);
    for (const ParameterSlot& slot : layout_.slots()) {
      if (slot.offset < n_convolutions_ && moving.wants(slot.offset)) return nullptr;
    }
    frozen_.emplace("convolutions ", std::span(c.row, to_index(n_convolutions_)),
                    convolutions_.features(),
                    [this, row = c.row](const float* samples, int64_t rows, float* out) {
                      const float* features = convolutions_.forward(row, samples, rows);
                      std::copy_n(features, rows * convolutions_.features(), out);
                    });
    return &*frozen_;
  }
  void take_frozen(FrozenValues& values, const FrozenPart&) override { frozen_->given = &values; }
  bool is_cut() const { return frozen_ && frozen_->given != nullptr; }

  bool parts_samples() const override { return head_.parts_samples() && !is_cut(); }
  const float* representation() override { return head_.last_input(); }
  float* forward(const float* row, const Batch& batch, RandomStream* noise) override {
    const float* features = is_cut() ? frozen_->gathered(batch)
                                     : convolutions_.forward(row, batch.features, batch.rows);
    return head_.forward(row, features, batch.rows, noise);
  }
  void backward(const float* row, const Batch&, const GradientTarget& target) override {
    const float* delta = head_.backward(row, target, representation_delta());
    if (!is_cut()) return convolutions_.backward(row, delta, target);
    add_zeros(layout_, frozen_->parameters(), target);
  }

  ConvolutionStack convolutions_;
  int64_t n_convolutions_;  // their parameters
  DenseStack head_;         // from the last ReLU on
  std::optional<FrozenPrefix> frozen_;
};

}  // namespace

std::unique_ptr<Model> make_convolutional(const ModelCase& c) {
  const NetworkSpec spec = *network_spec(c.options, c.sample_shape);
  int64_t needed = 1;
  while (output_side(spec.stages, needed) < 1) ++needed;
  if (c.sample_shape.size() != 3 || std::min(c.sample_shape[1], c.sample_shape[2]) < needed) {
    refuse_shape(c, fmt::format("{{channels, height, width}} with sides of {} or more", needed));
  }
  return std::make_unique<ConvolutionalModel>(spec, c.sample_shape, c.loss, is_bfloat16(c.options));
}

}  // namespace hanse
