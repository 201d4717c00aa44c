#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "device/cohort_noise.hpp"
#include "device/device.hpp"
#include "device/download.hpp"
#include "device/upload.hpp"
#include "hanse/base/error.hpp"
#include "hanse/model/sgd_rule.hpp"
#include "networks/cohort_forward.hpp"
#include "networks/tensor_loss.hpp"

namespace hanse {

namespace {

void copy_to(at::Tensor& tensor, int64_t begin, int64_t rows, const void* values) {
  at::Tensor place = tensor.narrow(0, begin, rows);
  place.copy_(at::from_blob(const_cast<void*>(values), place.sizes(), tensor.scalar_type()));
}

class NetworkCohort final : public Cohort {
 public:
  NetworkCohort(const Model& model, std::unique_ptr<CohortForward> network, LossPtr loss,
                int64_t values, bool classes, const Settings& settings)
      : network_(std::move(network)),
        loss_(std::move(loss)),
        settings_(settings),
        on_device_(at::TensorOptions(at::kFloat).device(at::Device(settings.device))),
        noise_(network_->dropouts(), settings.clients, settings.batch, on_device_) {
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
    within_ = at::arange(settings.batch, on_device_.dtype(at::kLong));
  }

  void put(int64_t begin, const Batch& batch) override {
    network_->check(batch);
    copy_to(features_, begin, batch.rows, batch.features);
    if (batch.labels != nullptr) copy_to(targets_, begin, batch.rows, batch.labels);
    if (batch.targets != nullptr) copy_to(targets_, begin, batch.rows, batch.targets);
  }

  at::Tensor& theta() override { return theta_; }

  void start(const Start& start) override {
    start_ = start;
    rows_.copy_(theta_.unsqueeze(0).expand_as(rows_));
    put_rows(start.rows);
    anchor_ = start.mu > 0 && !start.to_theta && !start.rows.empty() ? rows_.clone() : theta_;
    pulls_ = start.pulls.empty() ? at::Tensor() : at::zeros_like(rows_);
    if (pulls_.defined()) copy_to(pulls_, 0, rows_in(start.pulls.size()), start.pulls.data());
    if (velocity_.defined()) velocity_.zero_();
    losses_.zero_();
    noise_.start(start.noise);
  }

  void put_steps(const CohortSteps& steps) override {
    const auto n = static_cast<int64_t>(steps.counts.size()) / c();
    const int64_t places = n * c() * b(), counts = n * c();
    const at::Device device = on_device_.device();
    const at::Tensor table = staged({places + counts}, at::kLong, device);
    std::copy(steps.counts.begin(), steps.counts.end(),
              std::copy(steps.places.begin(), steps.places.end(), table.data_ptr<int64_t>()));
    const at::Tensor there = sent(table, device);
    steps_.places = there.narrow(0, 0, places).view({n, c() * b()});
    const at::Tensor samples = there.narrow(0, places, counts).view({n, c(), 1});
    noise_.put_steps(steps.counts, samples);
    steps_.weights = at::lt(within_, samples).to(at::kFloat) / samples.clamp_min(1).to(at::kFloat);
    const at::Tensor rates = staged({n, c(), 1}, at::kFloat, device);
    std::copy(steps.rates.begin(), steps.rates.end(), rates.data_ptr<float>());
    steps_.rates = sent(rates, device);
  }

  void step(int64_t number) override {
    const at::Tensor means = differentiate(number);
    const at::NoGradGuard no_grad;
    losses_.add_(means);
    if (settings_.slope.base > 0) gradient_.mul_(slopes(means));
    descend(steps_.rates[number]);
  }

  const at::Tensor& gradients(int64_t number, bool counts) override {
    const at::Tensor means = differentiate(number);
    if (counts) losses_.add_(means);
    return gradient_;
  }

  const at::Tensor& losses() const override { return losses_; }
  void take_losses(std::span<double> losses) const override { download(losses_, losses.data()); }

  const at::Tensor& rows() const override { return rows_; }

  void take_rows(std::span<float> rows) const override {
    download(rows_.narrow(0, 0, rows_in(rows.size())), rows.data());
  }
  void put_rows(std::span<const float> rows) override {
    if (!rows.empty()) copy_to(rows_, 0, rows_in(rows.size()), rows.data());
  }
  void take_theta(std::span<float> row) const override { download(theta_, row.data()); }
  void put_theta(std::span<const float> row) override {
    copy_to(theta_, 0, std::ssize(row), row.data());
  }

  EvaluationSums evaluate(std::span<const int64_t> places, SampleResults results) override {
    const at::NoGradGuard no_grad;
    const auto n = static_cast<int64_t>(places.size());
    const at::Tensor order = upload(places.data(), {n}, at::kLong);
    const at::Tensor input = features_.index_select(0, order).unsqueeze(0);
    const at::Tensor targets = targets_.index_select(0, order).unsqueeze(0);
    const at::Tensor z = network_->logits(theta_leaves_, input, {});  // [1, n, outputs]
    const at::Tensor loss = at::sum(losses_of(z, targets).to(at::kDouble), {1});
    const at::Tensor correct = at::sum(guessed_right(*loss_, z, targets), {1}).to(at::kDouble);
    const at::Tensor sums = downloaded(at::cat({loss, correct}));
    if (results.scores) download(class_one_scores(z), results.scores);
    if (results.ranks) download(ranks_of_labels(*loss_, z, targets), results.ranks);
    if (results.classes) download(classes_taken(*loss_, z, targets), results.classes);
    if (results.outputs) download(z, results.outputs);
    const auto* numbers = sums.data_ptr<double>();
    return {.loss = numbers[0], .correct = numbers[1], .samples = n};
  }

  std::vector<double> row_losses(std::span<const SampleRange> batches) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> all;
    for (const SampleRange& batch : batches) {
      const int64_t n = batch.size();
      const at::Tensor input = features_.narrow(0, batch.begin, n).expand({c(), n, -1});
      const at::Tensor targets = targets_.narrow(0, batch.begin, n).expand({c(), n}).contiguous();
      const at::Tensor z = network_->logits(leaves_, input.contiguous(), {});
      all.push_back(at::mean(losses_of(z, targets).to(at::kDouble), {1}));
    }
    const at::Tensor on_host = downloaded(at::stack(all));
    const double* first = on_host.data_ptr<double>();
    return {first, first + on_host.numel()};
  }

 private:
  // Fills gradient_ with those of the losses. Returns their means [C].
  at::Tensor differentiate(int64_t number) {
    const at::Tensor weights = steps_.weights[number];
    const at::Tensor order = steps_.places[number];
    const at::Tensor input = features_.index_select(0, order).view({c(), b(), -1});
    const at::Tensor targets = targets_.index_select(0, order).view({c(), b()});
    const at::Tensor logits =
        network_->training_logits(leaves_, input, noise_.masks(number), noise_.of_clients(number));
    const at::Tensor losses = losses_of(logits, targets);
    // A client's mean has no part in another one's: the sum's gradient holds each of theirs.
    const auto gradients =
        torch::autograd::grad({losses}, leaves_, {weights}, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i].defined() ? gradients_[i].copy_(gradients[i]) : gradients_[i].zero_();
    }
    return at::sum(used(weights, losses).to(at::kDouble) * weights, {1});
  }

  int64_t c() const { return settings_.clients; }
  int64_t b() const { return settings_.batch; }
  int64_t rows_in(std::size_t floats) const { return static_cast<int64_t>(floats) / rows_.size(1); }

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

  // `values` where they count: 0 NaN is NaN, and nothing may come of the places behind a client's
  // samples, nor of a client that has finished.
  at::Tensor used(const at::Tensor& weights, const at::Tensor& values) const {
    return at::where(weights > 0, values, at::zeros({}, on_device_));
  }

  // [C, B] of logits [C, B, outputs].
  at::Tensor losses_of(const at::Tensor& z, const at::Tensor& targets) const {
    return tensor_losses(*loss_, z, targets, at::Reduction::None).view(targets.sizes());
  }

  // [C, 1] of the clients' mean losses [C]: Cohort::Slope.
  at::Tensor slopes(const at::Tensor& means) const {
    const Slope& slope = settings_.slope;
    const at::Tensor room = slope.base - means;
    const at::Tensor beyond = at::full_like(room, slope.beyond);
    return at::where(room >= slope.least, room.reciprocal(), beyond).to(at::kFloat).view({c(), 1});
  }

  // Header: Cohort::Settings has the formula. A client without a step has the rate 0.
  void descend(const at::Tensor& rates) {
    at::Tensor direction = gradient_;
    if (settings_.clip > 0) {
      const at::Tensor norm =
          at::sqrt(at::sum(direction.square(), {1}, /*keepdim=*/true, at::kDouble));
      direction.mul_(at::clamp_max(settings_.clip / norm, 1.0).to(at::kFloat));
    }
    const SgdRule rule{.weight_decay = static_cast<float>(settings_.weight_decay),
                       .momentum = static_cast<float>(settings_.momentum),
                       .mu = static_cast<float>(start_.mu),
                       .nesterov = settings_.nesterov};
    direction = pulled_gradient(rule, direction, rows_, start_.mu > 0 ? &anchor_ : nullptr);
    if (pulls_.defined()) direction.add_(pulls_);
    if (velocity_.defined()) direction = with_momentum(rule, direction, velocity_);
    rows_.addcmul_(used(rates, direction), rates, -1);
  }

  std::unique_ptr<CohortForward> network_;
  LossPtr loss_;
  Settings settings_;
  at::TensorOptions on_device_;
  CohortNoise noise_;
  Start start_;                           // its spans are spent
  at::Tensor features_;                   // [samples, values of a sample]
  at::Tensor targets_;                    // [samples] labels, int32; targets, float32
  at::Tensor theta_;                      // [P]
  at::Tensor rows_;                       // [C, P]
  at::Tensor gradient_;                   // [C, P]
  at::Tensor anchor_;                     // [P] or [C, P] what the proximal term pulls to
  at::Tensor pulls_;                      // [C, P]; undefined: none
  at::Tensor velocity_;                   // [C, P], with momentum
  at::Tensor losses_;                     // [C] float64
  std::vector<at::Tensor> theta_leaves_;  // [1, shape of each tensor], on theta_
  std::vector<at::Tensor> leaves_;        // [C, shape of each tensor], on rows_
  std::vector<at::Tensor> gradients_;     // the same on gradient_
  at::Tensor within_;                     // [B] 0, 1, ...
  // Of the steps put.
  struct Steps {
    at::Tensor places;   // [steps, C B]
    at::Tensor weights;  // [steps, C, B] what a sample counts in its client's loss
    at::Tensor rates;    // [steps, C, 1]; 0: the client does not step
  } steps_;
};

}  // namespace

std::unique_ptr<Cohort> make_cohort(const ModelOptions& options,
                                    const std::vector<int64_t>& sample_shape, int64_t classes,
                                    const Cohort::Settings& settings) {
  const auto model = make_model(options, sample_shape, classes);
  if (model->layout().n_trainable() < model->n_params()) {
    throw InvalidArgument(
        "clients of a model with buffers or frozen parameters cannot be trained side by side",
        "model.path", "use group norm");
  }
  const ModelCase c{options, sample_shape, make_loss(options.loss, classes)};
  return std::make_unique<NetworkCohort>(*model, make_cohort_forward(c, settings.device), c.loss,
                                         size_of(sample_shape), classes > 0, settings);
}

}  // namespace hanse
