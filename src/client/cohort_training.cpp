#include "hanse/client/cohort_training.hpp"

#include <algorithm>

#include "batch_stream.hpp"

namespace hanse {

namespace {

// The most samples that a mini-batch of any client has: a size that the job fixes.
int64_t largest_batch(const ClientOptions& options, const Federation& federation) {
  int64_t most = 1;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    most = std::max(most, federation.train(client).size());
  }
  return options.batch > 0 ? std::min(options.batch, most) : most;
}

Cohort::Settings cohort_settings(const ClientOptions& options, const std::string& device,
                                 int64_t clients, int64_t batch) {
  return {.device = device,
          .clients = clients,
          .batch = batch,
          .weight_decay = options.weight_decay,
          .momentum = options.momentum,
          .clip = options.clip,
          .mu = options.kind == "prox" ? options.mu : 0};
}

}  // namespace

CohortTraining::CohortTraining(const ClientOptions& options, const Federation& federation,
                               const ModelOptions& model, const std::string& device,
                               int64_t clients)
    : options_(options),
      device_(device),
      clients_(clients),
      batch_(largest_batch(options, federation)),
      values_(federation.sample_values()),
      has_classes_(federation.classes() > 0),
      cohort_(make_cohort(model, federation.sample_shape(), federation.classes(),
                          cohort_settings(options, device, clients, batch_))) {
  const auto places = static_cast<std::size_t>(clients);
  const auto samples = static_cast<std::size_t>(clients * batch_);
  streams_.reserve(places);
  while (streams_.size() < places) streams_.emplace_back(options, federation);
  noise_.assign(places, RandomStream(0, Purpose::kDropout));
  steps_left_.resize(places);
  counts_.resize(places);
  features_.resize(samples * static_cast<std::size_t>(values_));
  (has_classes_ ? labels_.resize(samples) : targets_.resize(samples));
}

CohortTraining::~CohortTraining() = default;

// The next mini-batch of a client, into its place. What an earlier one has left behind it counts
// for nothing.
void CohortTraining::gather(std::size_t place) {
  counts_[place] = 0;
  if (steps_left_[place] == 0) return;
  --steps_left_[place];
  const Batch batch = streams_[place].next();
  const auto first = static_cast<std::ptrdiff_t>(place) * static_cast<std::ptrdiff_t>(batch_);
  std::copy_n(batch.features, batch.rows * values_, features_.begin() + first * values_);
  if (has_classes_) std::copy_n(batch.labels, batch.rows, labels_.begin() + first);
  if (!has_classes_) std::copy_n(batch.targets, batch.rows, targets_.begin() + first);
  counts_[place] = batch.rows;
}

std::vector<ClientOutcome> CohortTraining::train(std::span<const ClientTask> tasks) {
  std::vector<ClientOutcome> outcomes(tasks.size());
  std::vector<int64_t> steps(tasks.size());
  std::fill(steps_left_.begin(), steps_left_.end(), 0);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    streams_[i].start(tasks[i]);
    noise_[i] = dropout_stream(tasks[i]);
    steps[i] = steps_left_[i] = streams_[i].steps();
  }
  cohort_->start(learning_rate(options_, tasks.front().round));
  for (auto left = *std::max_element(steps.begin(), steps.end()); left > 0; --left) {
    for (std::size_t place = 0; place < streams_.size(); ++place) gather(place);
    cohort_->step({.features = features_,
                   .labels = labels_,
                   .targets = targets_,
                   .counts = counts_,
                   .noise = noise_});
    for (std::size_t i = 0; i < tasks.size(); ++i) outcomes[i].samples += counts_[i];
  }
  const auto losses = cohort_->losses();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    outcomes[i].loss = losses[i] / static_cast<double>(steps[i]);
  }
  return outcomes;
}

}  // namespace hanse
