// Models that compute on a device.

#include <algorithm>
#include <functional>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "device/device.hpp"
#include "device/device_masks.hpp"
#include "device/download.hpp"
#include "device/step_gradient.hpp"
#include "device/upload.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"
#include "layers/dropout.hpp"
#include "makers.hpp"
#include "network_model.hpp"
#include "networks/cohorts/cohort_forward.hpp"

namespace hanse {

namespace {

// The network's passes are a cohort's of one client; the loss of their logits, whatever its form,
// is the host's.
class DeviceModel final : public NetworkModel, public CuttableNetwork {
 public:
  DeviceModel(Model& host, const ModelCase& c, const std::string& device)
      : NetworkModel(c.loss),
        host_(host),
        network_(make_cohort_forward(c, device)),
        passes_(network_->client_passes()),
        values_(size_of(c.sample_shape)),
        there_(at::TensorOptions(at::kFloat).device(at::Device(device))),
        keeps_(there_.device()) {
    layout_ = host.layout();
    representation_width_ = host.representation_width();
    row_ = at::zeros({1, layout_.n_params()}, there_);
    tensors_ = tensors_of(row_, layout_);
  }

  void move_buffers(std::span<float> row) const override {
    if (passes_ == nullptr) return;
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> moved(tensors_.size());
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const ParameterSlot& slot = layout_.slots()[i];
      if (!slot.trainable && !slot.frozen) moved[i] = at::empty(slot.shape, there_);
    }
    passes_->move_buffers(moved);
    bring(moved, [&](const ParameterSlot& slot, const float* values) {
      std::copy_n(values, slot.size, row.begin() + slot.offset);
    });
  }

  // With deltas d(z) of the logits z, H v = J^T (dd/dz J v) + d(J^T d . v)/dw at constant d. J v is
  // the derivative of J^T d . v by d.
  void hessian_vector(std::span<const float> row, const Batch& batch, std::span<const float> v,
                      std::span<float> out) override {
    put(row.data(), batch);
    const std::vector<at::Tensor> leaves = leaves_of(tensors_);
    const at::Tensor z = network_->logits(leaves, samples_.unsqueeze(0), {});
    std::vector<float> delta = on_host(z);
    loss().loss_and_delta(batch, delta.data());
    const at::Tensor d = sent(delta.data(), z.sizes()).requires_grad_();
    const auto gradients = torch::autograd::grad({z}, leaves, {d}, true, /*create_graph=*/true);
    at::Tensor along = at::zeros({}, there_);
    const auto directions = tensors_of(sent(v.data(), {1, n_params()}), layout_);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      along = along + at::sum(gradients[i] * directions[i]);
    }
    std::vector<at::Tensor> points = leaves;
    points.push_back(d);
    auto found = torch::autograd::grad({along}, points, {}, true, false, /*allow_unused=*/true);
    std::vector<float> tangent = on_host(or_zeros(found.back(), d));
    found.pop_back();
    loss().delta_tangent(batch, delta.data(), tangent.data());
    const auto first = torch::autograd::grad({z}, leaves, {sent(tangent.data(), z.sizes())});
    std::ranges::fill(out, 0.0F);
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i] = or_zeros(found[i], leaves[i]) + first[i];
    }
    bring(found, [&](const ParameterSlot& slot, const float* values) {
      std::copy_n(values, slot.size, out.begin() + slot.offset);
    });
  }
  bool has_hessian() const override { return host_.has_hessian(); }
  std::string why_no_hessian() const override { return host_.why_no_hessian(); }

  FrozenPart* freeze(const FreezeCase& c) override {
    auto* const host = dynamic_cast<CuttableNetwork*>(&host_);
    return host != nullptr ? host->freeze(c) : nullptr;
  }
  void take_frozen(FrozenValues& values, const FrozenPart& part) override {
    network_->cut_as(part, {});
    given_ = &values;
    values_ = part.values();
  }

  void forget_start() override { host_.forget_start(); }
  int64_t evaluation_rows() const override { return host_.evaluation_rows(); }
  int64_t vocabulary() const override { return host_.vocabulary(); }
  std::vector<WholeNumbers> whole_numbers() const override { return host_.whole_numbers(); }
  int64_t compared_rows() const override { return host_.compared_rows(); }

 protected:
  void draw(std::span<float> row, RandomStream& stream) const override {
    host_.initialize(row, stream);
  }

  // A host that draws its masks a sample at a time has others than for a whole batch.
  bool parts_samples() const override {
    if (passes_ != nullptr) return false;
    return network_->dropouts().empty() || static_cast<const NetworkModel&>(host_).parts_samples();
  }

  float* forward(const float* row, const Batch& batch, RandomStream* noise) override {
    put(row, batch);
    if (noise == nullptr) {
      const at::NoGradGuard no_grad;
      z_ = network_->logits(tensors_, samples_.unsqueeze(0), {}, &representation_);
    } else if (passes_ != nullptr) {
      std::vector<at::Tensor> own;
      for (const at::Tensor& tensor : tensors_) own.push_back(tensor[0]);
      if (passes_->draws()) keeps_.start(noise->next());
      z_ = passes_->forward(own, samples_, keeps_).reshape({batch.rows, -1});
      representation_ = passes_->representation();
    } else {
      masks_ = drawn_masks(batch.rows, *noise);
      leaves_ = leaves_of(tensors_);
      z_ = network_->logits(leaves_, samples_.unsqueeze(0), masks_, &representation_);
    }
    logits_ = on_host(z_);
    if (std::ssize(logits_) != batch.rows * loss().logits()) {
      throw Error("a network's pass on a device has other outputs than on the host");
    }
    return logits_.data();
  }

  const float* representation() override {
    represented_ = on_host(representation_);
    return represented_.data();
  }

  void backward(const float*, const Batch& batch, const GradientTarget& target) override {
    if (target.samples != nullptr) return backward_apart(batch.rows, *target.samples);
    const at::Tensor delta = sent(logits_.data(), z_.sizes());
    std::vector<at::Tensor> gradients(tensors_.size()), wanted;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const ParameterSlot& slot = layout_.slots()[i];
      if (!slot.trainable || !target.wants(slot.offset)) continue;
      places.push_back(i);
      if (passes_ != nullptr) {
        gradients[i] = at::empty(slot.shape, there_);
      } else {
        wanted.push_back(leaves_[i]);
      }
    }
    if (passes_ != nullptr) {
      at::Tensor seen;
      if (representation_delta() != nullptr) {
        seen = sent(representation_delta(), representation_.sizes());
      }
      passes_->backward(delta, gradients, seen);
    } else if (!wanted.empty()) {
      std::vector<at::Tensor> outputs{z_}, deltas{delta};
      if (representation_delta() != nullptr) {
        outputs.push_back(representation_);
        deltas.push_back(sent(representation_delta(), representation_.sizes()));
      }
      const auto found = torch::autograd::grad(outputs, wanted, deltas, false, false, true);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        gradients[places[i]] = or_zeros(found[i], wanted[i]);
      }
    }
    bring(gradients, [&](const ParameterSlot& slot, const float* values) {
      target.add(slot.offset, values, slot.size);
    });
  }

 private:
  // Rows of samples' gradients that lie on the device at once, as floats.
  static constexpr int64_t kMostApart = int64_t{1} << 26;

  // The samples as a cohort of clients of one sample each, all at one row.
  void backward_apart(int64_t rows, SampleGradients& samples) {
    const int64_t most = std::clamp<int64_t>(kMostApart / n_params(), 1, rows);
    std::fill_n(samples.sum(), layout_.n_trainable(), 0.0);
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t n = std::min(most, rows - first);
      const std::vector<float> found = on_host(gradients_apart(first, n));
      for (int64_t i = 0; i < n; ++i) {
        add_sample(found.data() + i * layout_.n_trainable(), first + i, samples);
      }
    }
  }

  void add_sample(const float* gradient, int64_t sample, SampleGradients& samples) const {
    const std::span<const float> own(gradient, to_index(layout_.n_trainable()));
    const double scale = samples.settle(sample, inner_product(own, own));
    double* sum = samples.sum();
    for (std::size_t i = 0; scale != 0 && i < own.size(); ++i) {
      sum[i] += scale * static_cast<double>(own[i]);
    }
  }

  // [n, trainable] of the samples from `first` on.
  at::Tensor gradients_apart(int64_t first, int64_t n) const {
    const at::Tensor rows = row_.expand({n, n_params()}).contiguous();
    const std::vector<at::Tensor> leaves = leaves_of(tensors_of(rows, layout_));
    std::vector<at::Tensor> masks;
    for (const at::Tensor& mask : masks_) masks.push_back(mask[0].narrow(0, first, n).unsqueeze(1));
    const at::Tensor input = samples_.narrow(0, first, n).unsqueeze(1);
    const at::Tensor z = network_->logits(leaves, input, masks);
    const int64_t width = std::ssize(logits_) / samples_.size(0);
    const at::Tensor delta = sent(logits_.data() + first * width, z.sizes());
    const auto found = torch::autograd::grad({z}, leaves, {delta}, false, false, true);
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (layout_.slots()[i].trainable) {
        parts.push_back(or_zeros(found[i], leaves[i]).reshape({n, -1}));
      }
    }
    return at::cat(parts, 1);
  }

  void put(const float* row, const Batch& batch) {
    network_->check(batch);
    upload(row_, 0, 1, row);
    if (given_ == nullptr) {
      samples_ = sent(batch.features, {batch.rows, values_});
      return;
    }
    std::vector<float> frozen(to_index(batch.rows * values_));
    given_->gather(batch, frozen.data());
    samples_ = sent(frozen.data(), {batch.rows, values_});
  }

  // draw_mask() for each dropout, [1, rows, width].
  std::vector<at::Tensor> drawn_masks(int64_t rows, RandomStream& noise) const {
    std::vector<at::Tensor> masks;
    for (const auto& [width, share, steps] : network_->dropouts()) {
      std::vector<float> mask(to_index(rows * width));
      draw_mask(share, noise, mask);
      masks.push_back(sent(mask.data(), {steps, rows, width / steps})
                          .transpose(0, 1)
                          .reshape({1, rows, width}));
    }
    return masks;
  }

  static std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& tensor : tensors) leaves.push_back(tensor.detach().requires_grad_());
    return leaves;
  }
  static at::Tensor or_zeros(const at::Tensor& found, const at::Tensor& like) {
    return found.defined() ? found : at::zeros_like(like);
  }

  at::Tensor sent(const float* values, at::IntArrayRef shape) const {
    return at::from_blob(const_cast<float*>(values), shape, at::kFloat)
        .to(there_.device(), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  }
  static std::vector<float> on_host(const at::Tensor& tensor) {
    const at::Tensor there = tensor.detach().contiguous();
    std::vector<float> values(to_index(there.numel()));
    download(there, values.data());
    return values;
  }

  // Brings the tensors that are defined, of these slots, in one transfer.
  using Take = std::function<void(const ParameterSlot& slot, const float* values)>;
  void bring(const std::vector<at::Tensor>& tensors, const Take& take) const {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined()) parts.push_back(tensor.detach().flatten());
    }
    if (parts.empty()) return;
    const std::vector<float> values = on_host(at::cat(parts));
    const float* next = values.data();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined()) continue;
      take(layout_.slots()[i], next);
      next += tensors[i].numel();
    }
  }

  Model& host_;
  std::unique_ptr<CohortForward> network_;
  ClientPasses* passes_;           // the network's own way back; null: autograd's
  int64_t values_;                 // of a sample, or of what is frozen of it
  FrozenValues* given_ = nullptr;  // null: passes are not cut
  at::TensorOptions there_;
  at::Tensor row_;                   // [1, P]
  std::vector<at::Tensor> tensors_;  // [1, shape of each tensor], on row_
  DeviceMasks keeps_;                // of passes_
  // The last forward() left these:
  at::Tensor samples_;                      // [rows, values]
  std::vector<at::Tensor> leaves_, masks_;  // in training
  at::Tensor z_;                            // logits, [1, rows, ...] or [rows, outputs]
  at::Tensor representation_;       // what the last layer read, [1, rows, ...] or [rows, ...]
  std::vector<float> logits_;       // then their deltas
  std::vector<float> represented_;  // the representations' numbers
};

}  // namespace

std::unique_ptr<Model> make_device_model(Model& host, const ModelOptions& options,
                                         const std::vector<int64_t>& sample_shape,
                                         const LabelForm& labels, const std::string& device) {
  const ModelCase c{options, sample_shape, make_loss(options.loss, labels)};
  try {
    return std::make_unique<DeviceModel>(host, c, device);
  } catch (const c10::OutOfMemoryError&) {
    throw InvalidArgument(fmt::format("{} has no room for the model", device), "run.device",
                          "run.device = cpu");
  }
}

}  // namespace hanse
