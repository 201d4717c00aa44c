#include <algorithm>
#include <deque>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "device/aligned_rows.hpp"
#include "device/cohort_images.hpp"
#include "device/cohort_noise.hpp"
#include "device/cohort_samples.hpp"
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

// What a client draws in a step besides masks: for its network, and for its loss.
int64_t own_seeds(CohortForward& network) {
  ClientPasses* const passes = network.client_passes();
  return passes != nullptr && passes->draws() ? 1 : 0;
}
int64_t seeds_of(CohortForward& network, const Cohort::Settings& settings) {
  const int64_t of_loss = settings.objective.empty() ? 0 : settings.mixes ? 2 : 1;
  return own_seeds(network) + of_loss;
}

std::unique_ptr<CohortForward> network_of(const ModelCase& c, const Cohort::Settings& settings) {
  auto network = make_cohort_forward(c, settings.device);
  if (settings.part == nullptr) return network;
  network = make_part_cohort(std::move(network), *settings.part, settings.device);
  if (settings.frozen != nullptr) network->cut_as(*settings.frozen, {});
  return network;
}

int64_t sample_values(const ModelCase& c, const Cohort::Settings& settings) {
  return settings.frozen != nullptr ? settings.frozen->values() : size_of(c.sample_shape);
}

// Buffers stand behind them.
std::size_t trained_tensors(const ParameterLayout& layout) {
  return to_index(std::ranges::count_if(layout.slots(), &ParameterSlot::trainable));
}

class NetworkCohort final : public Cohort {
 public:
  NetworkCohort(const ParameterLayout& layout, const ModelCase& c, const LabelForm& labels,
                const Settings& settings)
      : network_(network_of(c, settings)),
        loss_(c.loss),
        settings_(settings),
        on_device_(at::TensorOptions(at::kFloat).device(at::Device(settings.device))),
        noise_(network_->dropouts(), seeds_of(*network_, settings), settings.clients,
               settings.batch, on_device_),
        table_(settings.clients, settings.batch, noise_.numbers(), on_device_.device(),
               settings.augments),
        samples_(settings.samples, sample_values(c, settings), labels, settings.mixes, on_device_),
        images_(settings, c.sample_shape, labels, table_, samples_),
        theta_{at::zeros({layout.n_params()}, on_device_), {}},
        rows_(aligned_rows(settings.clients, layout.n_params(), on_device_)),
        gradient_(aligned_like(rows_)),
        lost_{at::zeros({settings.clients}, on_device_.dtype(at::kDouble)), {}},
        descent_(settings, rows_, layout.n_trainable()) {
    theta_.tensors = tensors_of(theta_.row.unsqueeze(0), layout);
    tensors_ = tensors_of(rows_, layout);
    step_loss_ = make_loss_of_steps(layout, c, labels);
    const StepParts parts{.table = table_,
                          .noise = noise_,
                          .loss = loss_,
                          .step_loss = *step_loss_,
                          .clients = settings.clients,
                          .batch = settings.batch,
                          .features = samples_.features,
                          .targets = samples_.targets,
                          .rows = tensors_,
                          .gradients = tensors_of(gradient_, layout),
                          .trained = trained_tensors(layout),
                          .buffers = rows_.slice(1, layout.n_trainable()),
                          .narrow = is_bfloat16(c.options),
                          .plain = is_plain(labels, settings)};
    const auto spec = network_spec(c.options, c.sample_shape);
    if (spec && settings.by_hand && settings.part == nullptr) {
      differentiation_ = make_network_gradient(parts, *spec, c.sample_shape);
    }
    const bool by_hand = differentiation_ != nullptr;
    if (ClientPasses* passes = network_->client_passes()) {
      differentiation_ = make_client_gradient(parts, *passes, lanes());
    } else if (!by_hand) {
      differentiation_ = make_autograd_gradient(parts, *network_);
    }
    const bool records = settings.starts.recorded && settings.objective.empty();
    if (!records || !network_->can_be_recorded()) return;
    if (auto recorder = make_graph_recorder(on_device_.device().is_cpu())) {
      graphs_ = std::make_unique<StepGraphs>(std::move(recorder), by_hand ? kFewKernels : 1);
    }
  }

  void put(int64_t begin, const Batch& batch) override {
    network_->check(batch);
    samples_.put(begin, batch);
  }

  at::Tensor& theta() override { return theta_.row; }

  void put_parts(std::span<const uint8_t> moves) override {
    descent_.put_parts(moves, rows_);
    if (graphs_) graphs_->forget();
  }

  void start(const Start& start) override {
    descent_.clear(theta_.row, rows_, lost_.losses);
    descent_.receive(start.received, rows_, theta_.row);
    put_rows(start.rows);
    descent_.start(start, rows_);
    noise_.start(start.noise);
    step_loss_->start(start.to_theta ? received() : rows_, start.class_weights);
    count_squares(start.squares);
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

  const at::Tensor& losses() const override { return lost_.losses; }
  void take_losses(std::span<double> losses) const override {
    download(lost_.losses, losses.data());
  }
  void take_squares(std::span<double> squares) const override {
    download(lost_.squares, squares.data());
  }

  const at::Tensor& received() const override { return descent_.received(); }
  const at::Tensor& rows() const override { return rows_; }

  void take_rows(std::span<float> rows) const override {
    download(rows_.narrow(0, 0, rows_in(rows.size())), rows.data());
  }
  void put_rows(std::span<const float> rows) override {
    if (!rows.empty()) upload(rows_, 0, rows_in(rows.size()), rows.data());
  }
  void take_theta(std::span<float> row) const override { download(theta_.row, row.data()); }
  void put_theta(std::span<const float> row) override {
    upload(theta_.row, 0, std::ssize(row), row.data());
  }

  void evaluate(std::span<const int64_t> places, SampleResults results) override {
    const at::NoGradGuard no_grad;
    const auto n = static_cast<int64_t>(places.size());
    const at::Tensor numbers = staged({n}, at::kLong, on_device_.device());
    std::ranges::copy(places, numbers.data_ptr<int64_t>());
    const at::Tensor order = sent(numbers, on_device_.device());
    const at::Tensor input = samples_.features.index_select(0, order).unsqueeze(0);
    const at::Tensor targets = samples_.targets.index_select(0, order).unsqueeze(0);
    const at::Tensor z = network_->logits(theta_.tensors, input, {});  // [1, n, outputs]
    const at::Tensor loss = at::sum(losses_of(z, targets).to(at::kDouble), {1});
    const at::Tensor correct = at::sum(shares_right(*loss_, z, targets), {1}).to(at::kDouble);
    auto& [sums, on_the_way] = evaluated_;
    sums.push_back({0, 0, n});
    on_the_way.add(loss, &sums.back().loss);
    on_the_way.add(correct, &sums.back().correct);
    if (results.scores) on_the_way.add(class_one_scores(z), results.scores);
    if (results.ranks) on_the_way.add(ranks_of_labels(*loss_, z, targets), results.ranks);
    if (results.classes) on_the_way.add(classes_taken(*loss_, z, targets), results.classes);
    if (results.outputs) on_the_way.add(z, results.outputs);
    if (on_the_way.bytes() > kMostToBring) on_the_way.bring();
  }

  std::vector<EvaluationSums> take_evaluations() override {
    evaluated_.on_the_way.bring();
    const std::vector<EvaluationSums> sums(evaluated_.sums.begin(), evaluated_.sums.end());
    evaluated_.sums.clear();
    return sums;
  }

  std::vector<double> row_losses(std::span<const SampleRange> batches) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> all;
    for (const SampleRange& batch : batches) {
      const int64_t n = batch.size();
      const at::Tensor input = samples_.features.narrow(0, batch.begin, n).expand({c(), n, -1});
      const at::Tensor own = samples_.targets.narrow(0, batch.begin, n).unsqueeze(0);
      std::vector<int64_t> sizes = own.sizes().vec();
      sizes.front() = c();
      const at::Tensor targets = own.expand(sizes).contiguous();
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
  static constexpr int64_t kRecordedSizes = 4;  // of batches of a client, where each has its graph

  // Begins a sum of squared losses, or ends it.
  void count_squares(bool wanted) {
    if (wanted != lost_.squares.defined()) {
      lost_.squares = wanted ? at::empty_like(lost_.losses) : at::Tensor();
      if (graphs_) graphs_->forget();
      differentiation_->forget();
    }
    if (wanted) lost_.squares.zero_();
  }

  // The table's step of the first clients.
  void step(int64_t clients) {
    const at::Tensor means = differentiate(clients, true);
    descent_.step(table_, means, gradient_, rows_);
    differentiation_->move_buffers();
  }

  // Overwrites the first clients' gradients of the table's step. Returns their mean losses, which
  // may count.
  at::Tensor differentiate(int64_t clients, bool counts) {
    images_.make(clients);
    noise_.draw(table_, clients);
    step_loss_->prepare(clients);
    const at::Tensor means = differentiation_->find(clients, counts ? lost_ : StepTotals());
    step_loss_->add_row_gradient();
    return means;
  }

  // A user's own loss has tensors for all clients: they come one after the other.
  ClientLanes lanes() const {
    std::vector<std::unique_ptr<GraphRecorder>> all;
    const int64_t most = settings_.objective.empty() ? std::min(settings_.starts.streams, c()) : 0;
    while (std::ssize(all) < most) {
      auto recorder = make_graph_recorder(on_device_.device().is_cpu());
      if (recorder == nullptr) break;
      all.push_back(std::move(recorder));
    }
    const int64_t recorded = settings_.starts.recorded ? kRecordedSizes : 0;
    return {std::move(all), most > 0 ? recorded * ((c() + most - 1) / most) : 0};
  }

  std::unique_ptr<StepLoss> make_loss_of_steps(const ParameterLayout& layout, const ModelCase& c,
                                               const LabelForm& labels) {
    const LossParts parts{.table = table_,
                          .noise = noise_,
                          .samples = samples_,
                          .loss = loss_,
                          .batch = settings_.batch,
                          .weights = settings_.weighs
                                         ? at::ones({settings_.clients, labels.classes}, on_device_)
                                         : at::Tensor()};
    if (settings_.objective.empty()) return make_tensor_loss(parts, settings_.smoothing);
    return make_objective_loss(
        parts,
        {.network = *network_,
         .rows = tensors_,
         .gradients = tensors_of(gradient_, layout),
         .layout = layout,
         .own_seeds = own_seeds(*network_)},
        {.path = settings_.objective,
         .outputs = loss_->outputs(),
         .labels = labels,
         .n_trainable = make_model(c.options, c.sample_shape, labels)->layout().n_trainable()});
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
  CohortNoise noise_;
  StepTable table_;
  CohortSamples samples_;
  CohortImages images_;
  struct {
    at::Tensor row;                   // [P]
    std::vector<at::Tensor> tensors;  // [1, shape of each tensor], on the row
  } theta_;
  at::Tensor rows_;                  // [C, P]
  at::Tensor gradient_;              // [C, P]
  StepTotals lost_;                  // since the start
  std::vector<at::Tensor> tensors_;  // [C, shape of each tensor], on rows_
  struct {
    std::deque<EvaluationSums> sums;  // of batches, ...
    Downloads on_the_way;             // ... to them
  } evaluated_;
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
