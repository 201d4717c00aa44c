#include <algorithm>
#include <deque>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "device/aligned_rows.hpp"
#include "device/cohort_noise.hpp"
#include "device/descent.hpp"
#include "device/device.hpp"
#include "device/download.hpp"
#include "device/step_gradient.hpp"
#include "device/step_graph.hpp"
#include "device/step_loss.hpp"
#include "device/step_table.hpp"
#include "device/upload.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "networks/cohorts/cohort_forward.hpp"
#include "networks/tensor_loss.hpp"

namespace hanse {

namespace {

class NetworkCohort final : public Cohort {
 public:
  NetworkCohort(const ParameterLayout& layout, const ModelCase& c, const LabelForm& labels,
                const Settings& settings)
      : network_(network_of(c, settings)),
        loss_(c.loss),
        settings_(settings),
        on_device_(at::TensorOptions(at::kFloat).device(at::Device(settings.device))),
        table_(settings.clients, settings.batch, std::ssize(network_->dropouts()),
               on_device_.device()),
        noise_(network_->dropouts(), seeds_of(*network_, settings), settings.clients,
               settings.batch, on_device_),
        features_(at::zeros({settings.samples, size_of(c.sample_shape)}, on_device_)),
        targets_(room_for(labels)),
        theta_(at::zeros({layout.n_params()}, on_device_)),
        rows_(aligned_rows(settings.clients, layout.n_params(), on_device_)),
        gradient_(aligned_like(rows_)),
        losses_(at::zeros({settings.clients}, on_device_.dtype(at::kDouble))),
        squares_(at::zeros_like(losses_)),
        descent_(settings, rows_, layout.n_trainable()) {
    theta_tensors_ = tensors_of(theta_.unsqueeze(0), layout);
    tensors_ = tensors_of(rows_, layout);
    step_loss_ = make_loss_of_steps(layout, c, labels);
    const StepParts parts{.table = table_,
                          .noise = noise_,
                          .loss = loss_,
                          .step_loss = *step_loss_,
                          .clients = settings.clients,
                          .batch = settings.batch,
                          .features = features_,
                          .targets = targets_,
                          .rows = tensors_,
                          .gradients = tensors_of(gradient_, layout),
                          .trained = trained_tensors(layout),
                          .narrow = is_bfloat16(c.options),
                          .plain = is_plain(labels, settings)};
    const auto spec = network_spec(c.options, c.sample_shape);
    if (spec && settings.by_hand && settings.part == nullptr) {
      differentiation_ = make_network_gradient(parts, *spec, c.sample_shape);
    }
    const bool by_hand = differentiation_ != nullptr;
    if (ClientPasses* passes = network_->client_passes()) {
      differentiation_ = make_client_gradient(parts, *passes);
    } else if (!by_hand) {
      differentiation_ = make_autograd_gradient(parts, *network_);
    }
    if (!settings.graphs || !network_->can_be_recorded() || !settings.objective.empty()) return;
    if (auto recorder = make_graph_recorder(on_device_.device().is_cpu())) {
      graphs_ = std::make_unique<StepGraphs>(std::move(recorder), by_hand ? kFewKernels : 1);
    }
  }

  void put(int64_t begin, const Batch& batch) override {
    network_->check(batch);
    upload(features_, begin, batch.rows, batch.features);
    if (batch.labels != nullptr) upload(targets_, begin, batch.rows, batch.labels);
    if (batch.targets != nullptr) upload(targets_, begin, batch.rows, batch.targets);
    if (!others_.defined()) return;
    shares_.narrow(0, begin, batch.rows).fill_(batch.mixed ? batch.mixed->share : 1);
    if (batch.mixed == nullptr) {
      others_.narrow(0, begin, batch.rows).copy_(targets_.narrow(0, begin, batch.rows));
    } else if (batch.labels != nullptr) {
      upload(others_, begin, batch.rows, batch.mixed->labels);
    } else {
      upload(others_, begin, batch.rows, batch.mixed->targets);
    }
  }

  at::Tensor& theta() override { return theta_; }

  void start(const Start& start) override {
    descent_.clear(theta_, rows_, losses_);
    descent_.receive(start.received, rows_, theta_);
    put_rows(start.rows);
    descent_.start(start, rows_);
    noise_.start(start.noise);
    step_loss_->receive(start.to_theta ? received().expand_as(rows_) : rows_);
    if (class_weights_.defined() && !start.class_weights.empty()) {
      const auto n = std::ssize(start.class_weights) / class_weights_.size(1);
      upload(class_weights_, 0, n, start.class_weights.data());
    }
    if (start.squares) squares_.zero_();
    if (graphs_ && start.squares != counts_squares_) graphs_->forget();
    counts_squares_ = start.squares;
  }

  int64_t moment_values() const override { return descent_.moment_values(); }
  void take_moments(std::span<float> moments) const override { descent_.take_moments(moments); }

  void put_steps(const CohortSteps& steps) override {
    const bool moves = table_.put(steps, noise_.put_steps(steps.counts));
    if (moves && graphs_) graphs_->forget();
  }

  void steps(int64_t first, int64_t count, int64_t clients) override {
    if (!graphs_) {
      for (int64_t number = first; number < first + count; ++number) {
        table_.choose(number);
        step(clients);
      }
      return;
    }
    const auto& [mu, own_anchor, pulls] = descent_.form();
    table_.go_to(first, count);
    graphs_->run({mu, own_anchor, pulls, clients}, count, [&](int64_t some) {
      for (int64_t i = 0; i < some; ++i) {
        table_.choose_ahead(i);
        step(clients);
      }
      table_.move_on(some);
    });
  }

  const at::Tensor& gradients(int64_t number, bool counts) override {
    table_.choose(number);
    differentiate(c(), counts);
    return gradient_;
  }

  const at::Tensor& losses() const override { return losses_; }
  void take_losses(std::span<double> losses) const override { download(losses_, losses.data()); }
  void take_squares(std::span<double> squares) const override {
    download(squares_, squares.data());
  }

  const at::Tensor& received() const override { return descent_.received(); }
  const at::Tensor& rows() const override { return rows_; }

  void take_rows(std::span<float> rows) const override {
    download(rows_.narrow(0, 0, rows_in(rows.size())), rows.data());
  }
  void put_rows(std::span<const float> rows) override {
    if (!rows.empty()) upload(rows_, 0, rows_in(rows.size()), rows.data());
  }
  void take_theta(std::span<float> row) const override { download(theta_, row.data()); }
  void put_theta(std::span<const float> row) override {
    upload(theta_, 0, std::ssize(row), row.data());
  }

  void evaluate(std::span<const int64_t> places, SampleResults results) override {
    const at::NoGradGuard no_grad;
    const auto n = static_cast<int64_t>(places.size());
    const at::Tensor numbers = staged({n}, at::kLong, on_device_.device());
    std::ranges::copy(places, numbers.data_ptr<int64_t>());
    const at::Tensor order = sent(numbers, on_device_.device());
    const at::Tensor input = features_.index_select(0, order).unsqueeze(0);
    const at::Tensor targets = targets_.index_select(0, order).unsqueeze(0);
    const at::Tensor z = network_->logits(theta_tensors_, input, {});  // [1, n, outputs]
    const at::Tensor loss = at::sum(losses_of(z, targets).to(at::kDouble), {1});
    const at::Tensor correct = at::sum(shares_right(*loss_, z, targets), {1}).to(at::kDouble);
    evaluated_.push_back({0, 0, n});
    evaluations_.add(loss, &evaluated_.back().loss);
    evaluations_.add(correct, &evaluated_.back().correct);
    if (results.scores) evaluations_.add(class_one_scores(z), results.scores);
    if (results.ranks) evaluations_.add(ranks_of_labels(*loss_, z, targets), results.ranks);
    if (results.classes) evaluations_.add(classes_taken(*loss_, z, targets), results.classes);
    if (results.outputs) evaluations_.add(z, results.outputs);
    if (evaluations_.bytes() > kMostToBring) evaluations_.bring();
  }

  std::vector<EvaluationSums> take_evaluations() override {
    evaluations_.bring();
    const std::vector<EvaluationSums> sums(evaluated_.begin(), evaluated_.end());
    evaluated_.clear();
    return sums;
  }

  std::vector<double> row_losses(std::span<const SampleRange> batches) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> all;
    for (const SampleRange& batch : batches) {
      const int64_t n = batch.size();
      const at::Tensor input = features_.narrow(0, batch.begin, n).expand({c(), n, -1});
      const at::Tensor own = targets_.narrow(0, batch.begin, n).unsqueeze(0);
      const at::Tensor targets = at::cat(std::vector<at::Tensor>(to_index(c()), own));
      const at::Tensor z = network_->logits(tensors_, input.contiguous(), {});
      all.push_back(at::mean(losses_of(z, targets).to(at::kDouble), {1}));
    }
    const at::Tensor on_host = downloaded(at::stack(all));
    const double* first = on_host.data_ptr<double>();
    return {first, first + on_host.numel()};
  }

 private:
  static constexpr int64_t kMostToBring = int64_t{64} << 20;
  static constexpr int64_t kFewKernels = 32;  // steps of a graph, where a step has some ten kernels

  // The table's step of the first clients.
  void step(int64_t clients) {
    const at::Tensor means = differentiate(clients, true);
    descent_.step(table_, means, gradient_, rows_);
    differentiation_->move_buffers();
  }

  // Overwrites the first clients' gradients of the table's step. Returns their mean losses, which
  // may count.
  at::Tensor differentiate(int64_t clients, bool counts) {
    noise_.draw(table_, clients);
    step_loss_->prepare(clients);
    StepTotals totals;
    if (counts) totals.losses = losses_;
    if (counts && counts_squares_) totals.squares = squares_;
    const at::Tensor means = differentiation_->find(clients, totals);
    step_loss_->add_row_gradient();
    return means;
  }

  // Are the loss and the labels of steps such as kernels of our own know?
  static bool is_plain(const LabelForm& labels, const Settings& settings) {
    return labels.values == 1 && !labels.multi_label && settings.smoothing < 0 &&
           settings.objective.empty() && !settings.mixes;
  }

  // What a client draws in a step besides masks.
  static int64_t seeds_of(CohortForward& network, const Settings& settings) {
    const int64_t of_loss = settings.objective.empty() ? 0 : settings.mixes ? 2 : 1;
    return own_seeds(network) + of_loss;
  }
  static int64_t own_seeds(CohortForward& network) {
    ClientPasses* const passes = network.client_passes();
    return passes != nullptr && passes->draws() ? 1 : 0;
  }

  // [samples] or [samples, values]
  at::Tensor room_for(const LabelForm& labels) const {
    std::vector<int64_t> sizes{settings_.samples};
    if (labels.values > 1) sizes.push_back(labels.values);
    return at::zeros(sizes, labels.classes > 0 ? on_device_.dtype(at::kInt) : on_device_);
  }

  std::unique_ptr<StepLoss> make_loss_of_steps(const ParameterLayout& layout, const ModelCase& c,
                                               const LabelForm& labels) {
    if (settings_.mixes) {
      others_ = at::zeros_like(targets_);
      shares_ = at::ones({settings_.samples}, on_device_);
    }
    if (settings_.weighs) class_weights_ = at::ones({this->c(), labels.classes}, on_device_);
    const LossParts parts{.table = table_,
                          .noise = noise_,
                          .loss = loss_,
                          .batch = settings_.batch,
                          .targets = targets_,
                          .others = others_,
                          .shares = shares_,
                          .weights = class_weights_};
    if (settings_.objective.empty()) return make_step_loss(parts, settings_.smoothing);
    return make_objective_loss(
        parts,
        {.network = *network_,
         .features = features_,
         .rows = tensors_,
         .gradients = tensors_of(gradient_, layout),
         .layout = layout,
         .own_seeds = own_seeds(*network_)},
        {.path = settings_.objective,
         .outputs = loss_->outputs(),
         .labels = labels,
         .n_trainable = make_model(c.options, c.sample_shape, labels)->layout().n_trainable()});
  }

  static std::unique_ptr<CohortForward> network_of(const ModelCase& c, const Settings& settings) {
    auto network = make_cohort_forward(c, settings.device);
    if (settings.part == nullptr) return network;
    return make_part_cohort(std::move(network), *settings.part, settings.device);
  }

  // Buffers stand behind them.
  static std::size_t trained_tensors(const ParameterLayout& layout) {
    return to_index(std::ranges::count_if(layout.slots(), &ParameterSlot::trainable));
  }

  int64_t c() const { return settings_.clients; }
  int64_t rows_in(std::size_t floats) const { return static_cast<int64_t>(floats) / rows_.size(1); }

  // The losses [C, B] from logits [C, B, ...].
  at::Tensor losses_of(const at::Tensor& z, const at::Tensor& targets) const {
    return tensor_losses(*loss_, z, targets, at::Reduction::None).view({z.size(0), z.size(1)});
  }

  std::unique_ptr<CohortForward> network_;
  LossPtr loss_;
  Settings settings_;
  at::TensorOptions on_device_;
  StepTable table_;
  CohortNoise noise_;
  at::Tensor features_;                                   // [samples, values of a sample]
  at::Tensor targets_, others_, shares_, class_weights_;  // LossParts
  at::Tensor theta_;                                      // [P]
  at::Tensor rows_;                                       // [C, P]
  at::Tensor gradient_;                                   // [C, P]
  at::Tensor losses_, squares_;                           // [C] float64
  bool counts_squares_ = false;
  std::vector<at::Tensor> theta_tensors_;  // [1, shape of each tensor], on theta_
  std::vector<at::Tensor> tensors_;        // [C, shape of each tensor], on rows_
  std::deque<EvaluationSums> evaluated_;   // batches whose sums are on their way ...
  Downloads evaluations_;                  // ... to them
  Descent descent_;
  std::unique_ptr<StepLoss> step_loss_;
  std::unique_ptr<StepGradient> differentiation_;
  std::unique_ptr<StepGraphs> graphs_;  // null: kernels are started one by one
};

// As smooth_labels() and train_for() do with the model.
void check_objective(const Cohort::Settings& settings, const LabelForm& labels, const Loss& loss) {
  if (!settings.objective.empty()) check_objective_labels(labels);
  if (settings.smoothing >= 0) check_smoothed(loss);
}

}  // namespace

std::unique_ptr<Cohort> make_cohort(const ModelOptions& options,
                                    const std::vector<int64_t>& sample_shape,
                                    const LabelForm& labels, const Cohort::Settings& settings) {
  if (options.precision == Precision::kTf32 && settings.device == "cpu") {
    throw InvalidArgument("tf32 is a format of GPUs", "model.precision", "use float32 or bfloat16");
  }
  const ParameterLayout layout = settings.part != nullptr
                                     ? settings.part->layout()
                                     : make_model(options, sample_shape, labels)->layout();
  const ModelCase c{options, sample_shape, make_loss(options.loss, labels)};
  check_objective(settings, labels, *c.loss);
  try {
    return std::make_unique<NetworkCohort>(layout, c, labels, settings);
  } catch (const c10::OutOfMemoryError&) {
    throw InvalidArgument(fmt::format("{} has no room for {} clients side by side", settings.device,
                                      settings.clients),
                          "run.device-cohort", "a smaller one");
  }
}

}  // namespace hanse
