#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "device/device.hpp"
#include "dropout.hpp"
#include "hanse/base/error.hpp"
#include "hanse/model/sgd_rule.hpp"
#include "networks/network_forward.hpp"
#include "networks/tensor_loss.hpp"

namespace hanse {

namespace {

void copy_to(at::Tensor& tensor, int64_t begin, int64_t rows, const void* values) {
  at::Tensor place = tensor.narrow(0, begin, rows);
  place.copy_(at::from_blob(const_cast<void*>(values), place.sizes(), tensor.scalar_type()));
}

class NetworkCohort final : public Cohort {
 public:
  NetworkCohort(const Model& model, NetworkForward network, LossPtr loss, int64_t values,
                bool classes, const Settings& settings)
      : network_(std::move(network)),
        loss_(std::move(loss)),
        settings_(settings),
        on_device_(at::TensorOptions(at::kFloat).device(at::Device(settings.device))) {
    const int64_t c = settings.clients, p = model.n_params();
    features_ = at::zeros({settings.samples, values}, on_device_);
    targets_ = at::zeros({settings.samples}, classes ? on_device_.dtype(at::kInt) : on_device_);
    theta_ = at::zeros({p}, on_device_);
    rows_ = at::zeros({c, p}, on_device_);
    gradient_ = at::zeros({c, p}, on_device_);
    if (settings.momentum > 0) velocity_ = at::zeros({c, p}, on_device_);
    losses_ = at::zeros({c}, on_device_.dtype(at::kDouble));
    for (const ParameterSlot& slot : model.layout().slots()) {
      theta_leaves_.push_back(slot_of(theta_.unsqueeze(0), slot));
      leaves_.push_back(slot_of(rows_, slot).requires_grad_());
      gradients_.push_back(slot_of(gradient_, slot));
    }
    for (const auto& [width, share] : network_.dropouts()) {
      masks_.emplace_back(static_cast<std::size_t>(c * settings.batch * width));
    }
    weights_.resize(static_cast<std::size_t>(c * settings.batch));
    rates_.resize(static_cast<std::size_t>(c));
  }

  void put(int64_t begin, const Batch& batch) override {
    copy_to(features_, begin, batch.rows, batch.features);
    if (batch.labels != nullptr) copy_to(targets_, begin, batch.rows, batch.labels);
    if (batch.targets != nullptr) copy_to(targets_, begin, batch.rows, batch.targets);
  }

  at::Tensor& theta() override { return theta_; }

  void start(double lr) override {
    lr_ = lr;
    rows_.copy_(theta_.unsqueeze(0).expand_as(rows_));
    if (velocity_.defined()) velocity_.zero_();
    losses_.zero_();
  }

  void step(const CohortBatch& batch) override {
    weigh(batch.counts);
    const at::Tensor weights = upload(weights_.data(), {c(), b()}, at::kFloat);
    const at::Tensor order = upload(batch.places.data(), {c() * b()}, at::kLong);
    const at::Tensor input = features_.index_select(0, order).view({c(), b(), -1});
    const at::Tensor targets = targets_.index_select(0, order).view({c(), b()});
    const at::Tensor logits = network_.logits(leaves_, input, draw_masks(batch));
    const at::Tensor losses = losses_of(logits, targets);
    // A client's mean has no part in another one's: the sum's gradient holds each of theirs.
    const auto gradients = torch::autograd::grad({losses}, leaves_, {weights});
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients_[i].copy_(gradients[i]);
    losses_.add_(at::sum(used(weights, losses).to(at::kDouble) * weights, {1}));
    descend();
  }

  std::vector<double> losses() const override {
    const at::Tensor on_host = losses_.cpu();
    const double* first = on_host.data_ptr<double>();
    return {first, first + on_host.numel()};
  }

  const at::Tensor& rows() const override { return rows_; }

  EvaluationSums evaluate(std::span<const int64_t> places, SampleResults results) override {
    const at::NoGradGuard no_grad;
    const auto n = static_cast<int64_t>(places.size());
    const at::Tensor order = upload(places.data(), {n}, at::kLong);
    const at::Tensor input = features_.index_select(0, order).unsqueeze(0);
    const at::Tensor targets = targets_.index_select(0, order).unsqueeze(0);
    const at::Tensor z = network_.logits(theta_leaves_, input, {});  // [1, n, outputs]
    const at::Tensor loss = at::sum(losses_of(z, targets).to(at::kDouble), {1});
    const at::Tensor correct = at::sum(guessed_right(*loss_, z, targets), {1}).to(at::kDouble);
    const at::Tensor sums = at::cat({loss, correct}).cpu();
    if (results.scores) {
      at::from_blob(results.scores, {1, n}, at::kFloat).copy_(class_one_scores(z));
    }
    if (results.ranks) {
      at::from_blob(results.ranks, {1, n}, at::kInt).copy_(ranks_of_labels(*loss_, z, targets));
    }
    if (results.classes) {
      at::from_blob(results.classes, {1, n}, at::kInt).copy_(classes_taken(*loss_, z, targets));
    }
    if (results.outputs) {
      at::from_blob(results.outputs, z.sizes(), at::kFloat).copy_(z);
    }
    const auto* numbers = sums.data_ptr<double>();
    return {.loss = numbers[0], .correct = numbers[1], .samples = n};
  }

 private:
  int64_t c() const { return settings_.clients; }
  int64_t b() const { return settings_.batch; }

  // One tensor of all clients: [C, its shape] on the memory of rows [C, P].
  static at::Tensor slot_of(const at::Tensor& rows, const ParameterSlot& slot) {
    std::vector<int64_t> shape = {rows.size(0)};
    shape.insert(shape.end(), slot.shape.begin(), slot.shape.end());
    return rows.narrow(1, slot.offset, slot.size).view(shape).detach();
  }

  // On the CPU that is the host's memory, which must outlive what is computed of it.
  at::Tensor upload(const void* values, at::IntArrayRef shape, at::ScalarType type) const {
    return at::from_blob(const_cast<void*>(values), shape, type).to(on_device_.device());
  }

  // What a sample counts in its client's loss, and a client's rate in this step.
  void weigh(std::span<const int64_t> counts) {
    std::fill(weights_.begin(), weights_.end(), 0.0F);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto first = weights_.begin() + static_cast<std::ptrdiff_t>(i) * b();
      std::fill_n(first, counts[i], 1.0F / static_cast<float>(std::max<int64_t>(counts[i], 1)));
      rates_[i] = counts[i] > 0 ? static_cast<float>(lr_) : 0.0F;
    }
  }

  // [C, B, width] for each dropout, from the clients' streams in the order of Model's: a client's
  // samples of one dropout after the other.
  std::vector<at::Tensor> draw_masks(const CohortBatch& batch) {
    std::vector<at::Tensor> masks;
    for (std::size_t d = 0; d < masks_.size(); ++d) {
      const auto [width, share] = network_.dropouts()[d];
      for (std::size_t i = 0; i < batch.counts.size(); ++i) {
        const auto place = std::span(masks_[d]).subspan(i * static_cast<std::size_t>(b() * width));
        draw_mask(share, batch.noise[i],
                  place.first(static_cast<std::size_t>(batch.counts[i] * width)));
      }
      masks.push_back(upload(masks_[d].data(), {c(), b(), width}, at::kFloat));
    }
    return masks;
  }

  // `values` where they count: 0 NaN is NaN, and nothing may come of the places behind a client's
  // samples, nor of a client that has finished.
  at::Tensor used(const at::Tensor& weights, const at::Tensor& values) const {
    return at::where(weights > 0, values, at::zeros({}, on_device_));
  }

  // [C, B] of logits [C, B, outputs].
  at::Tensor losses_of(const at::Tensor& z, const at::Tensor& targets) const {
    return tensor_losses(*loss_, z, targets, at::Reduction::None).view(targets.sizes());
  }

  // Header: Cohort::Settings has the formula. A client without a step has the rate 0.
  void descend() {
    at::Tensor direction = gradient_;
    if (settings_.clip > 0) {
      const at::Tensor norm =
          at::sqrt(at::sum(direction.square(), {1}, /*keepdim=*/true, at::kDouble));
      direction.mul_(at::clamp_max(settings_.clip / norm, 1.0).to(at::kFloat));
    }
    const SgdRule rule{.weight_decay = static_cast<float>(settings_.weight_decay),
                       .momentum = static_cast<float>(settings_.momentum),
                       .mu = static_cast<float>(settings_.mu),
                       .nesterov = settings_.nesterov};
    direction = pulled_gradient(rule, direction, rows_, settings_.mu > 0 ? &theta_ : nullptr);
    if (velocity_.defined()) direction = with_momentum(rule, direction, velocity_);
    const at::Tensor rates = upload(rates_.data(), {c(), 1}, at::kFloat);
    rows_.addcmul_(used(rates, direction), rates, -1);
  }

  NetworkForward network_;
  LossPtr loss_;
  Settings settings_;
  at::TensorOptions on_device_;
  double lr_ = 0;
  at::Tensor features_;                   // [samples, values of a sample]
  at::Tensor targets_;                    // [samples] labels, int32; targets, float32
  at::Tensor theta_;                      // [P]
  at::Tensor rows_;                       // [C, P]
  at::Tensor gradient_;                   // [C, P]
  at::Tensor velocity_;                   // [C, P], with momentum
  at::Tensor losses_;                     // [C] float64
  std::vector<at::Tensor> theta_leaves_;  // [1, shape of each tensor], on theta_
  std::vector<at::Tensor> leaves_;        // [C, shape of each tensor], on rows_
  std::vector<at::Tensor> gradients_;     // the same on gradient_
  // In the host's memory, of the step in progress.
  std::vector<std::vector<float>> masks_;  // [C, B, width] for each dropout
  std::vector<float> weights_;             // [C, B]
  std::vector<float> rates_;               // [C]
};

}  // namespace

std::unique_ptr<Cohort> make_cohort(const ModelOptions& options,
                                    const std::vector<int64_t>& sample_shape, int64_t classes,
                                    const Cohort::Settings& settings) {
  const auto model = make_model(options, sample_shape, classes);
  if (!has_cohort(options.kind)) {
    throw InvalidArgument("clients of a " + options.kind + " cannot be trained side by side",
                          "model.kind", "linear, mlp, cnn-leaf, cnn-cifar and lenet can");
  }
  NetworkForward network(*network_spec(options, sample_shape), sample_shape);
  return std::make_unique<NetworkCohort>(*model, std::move(network),
                                         make_loss(options.loss, classes), size_of(sample_shape),
                                         classes > 0, settings);
}

}  // namespace hanse
