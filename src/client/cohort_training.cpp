#include "hanse/client/cohort_training.hpp"

#include <algorithm>
#include <numeric>

#include "batch_stream.hpp"
#include "cohort_sizes.hpp"
#include "hanse/base/index.hpp"
#include "hanse/model/frozen_cache.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

namespace {

// Steps whose samples are uploaded at once: the host shuffles more while the device makes them.
constexpr int64_t kStepsAtOnce = 32;

Cohort::Settings cohort_settings(const ClientOptions& options, const std::string& device,
                                 int64_t clients, int64_t batch, int64_t samples, bool augments,
                                 KernelStarts starts, const PartModel* part,
                                 const FrozenCache* frozen) {
  return {
      .device = device,
      .clients = clients,
      .batch = batch,
      .samples = samples,
      .step = Stepping(options).numbers(),
      .accumulates = options.accumulate > 1,
      .clip = options.clip,
      .slope = {.base = options.propfair.base,
                .least = PropfairOptions::kLeastRoom,
                .beyond = propfair_slope(options.propfair, options.propfair.base)},
      .starts = starts,
      .smoothing = own_loss_key(options).empty() || !options.objective.empty()
                       ? -1
                       : options.label_smoothing,
      .objective = options.objective,
      .weighs = options.class_weights != "none",
      .mixes = options.augmentation.mixup > 0,
      .augments = augments,
      .cutout = options.augmentation.cutout,
      .part = part,
      .frozen = frozen != nullptr ? &frozen->part() : nullptr,
  };
}

std::vector<BatchStream> streams_of(const ClientOptions& options, const Federation& federation,
                                    int64_t clients) {
  std::vector<BatchStream> streams;
  streams.reserve(to_index(clients));
  while (std::ssize(streams) < clients) streams.emplace_back(options, federation);
  return streams;
}

// The key of dropout_stream().
Cohort::NoiseKey dropout_key(const ClientTask& task) {
  return {task.seed, static_cast<uint64_t>(task.key()), static_cast<uint64_t>(task.client)};
}

}  // namespace

int64_t largest_batch(const LocalWork& work, const Federation& federation) {
  int64_t most = 1;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    most = std::max(most, federation.train(client).size());
  }
  if (work.pooled) most = federation.train_samples();
  return work.batch > 0 ? std::min(work.batch, most) : most;
}

CohortTraining::CohortTraining(const ClientOptions& options, const Federation& federation,
                               const ModelOptions& model, const std::string& device,
                               int64_t clients, int64_t sample_bytes, KernelStarts starts,
                               const PartModel* part, FrozenCache* frozen)
    : own_sizes_(std::make_unique<CohortSizes>(options, clients)),
      source_{federation, frozen},
      device_(device),
      clients_(clients),
      batch_(largest_batch(options, federation)),
      holds_all_(federation.samples() * (source_.values() + federation.label_form().values) * 4 <=
                 sample_bytes),
      changes_(who_changes(options)),
      streams_(streams_of(options, federation, clients)),
      cohort_(torch_library().make_cohort(
          model, federation.sample_shape(), federation.label_form(),
          cohort_settings(options, device, clients, batch_, places_of_samples(),
                          changes_ == Changes::kOnDevice, starts, part, frozen))) {
  const auto places = static_cast<std::size_t>(clients);
  const std::size_t room = to_index(window());
  noise_.resize(places);
  steps_.resize(places);
  const int64_t steps = holds_all_ && changes_ != Changes::kOnHost ? kStepsAtOnce : 1;
  const auto samples = static_cast<std::size_t>(steps * clients_ * batch_);
  table_.counts.resize(static_cast<std::size_t>(steps) * places);
  table_.sizes.resize(table_.counts.size());
  rows_.resize(std::max(room, samples));
  if (changes_ == Changes::kOnDevice) table_.images.resize(samples);
  if (holds_all_) {
    upload_all();
  } else {
    staged_.features.resize(room * to_index(source_.values()));
    const std::size_t values = room * to_index(federation.label_form().values);
    (federation.classes() > 0 ? staged_.labels.resize(values) : staged_.targets.resize(values));
  }
}

CohortTraining::Changes CohortTraining::who_changes(const ClientOptions& options) const {
  const bool augments = !augmentation_key(options.augmentation).empty();
  if (options.poison.kind != Poison::kNone) return Changes::kOnHost;
  if (!augments) return Changes::kNone;
  return holds_all_ && source_.frozen == nullptr ? Changes::kOnDevice : Changes::kOnHost;
}

int64_t CohortTraining::Source::values() const {
  return frozen != nullptr ? frozen->values() : federation.sample_values();
}

void CohortTraining::Source::read(const BatchPlaces& places, int64_t rows, float* out) const {
  if (frozen != nullptr) return frozen->gather({.rows = rows, .places = places}, out);
  if (places.order != nullptr) {
    federation.gather(places.begin, {places.order, to_index(rows)}, out);
  } else {
    federation.copy({places.begin, places.begin + rows}, out);
  }
}

// On the device: of all samples, or of what is due; behind all samples those that are changed.
int64_t CohortTraining::places_of_samples() const {
  if (!holds_all_) return window();
  const int64_t changed = changes_ != Changes::kNone ? clients_ * batch_ : 0;
  return source_.federation.samples() + changed;
}

CohortTraining::~CohortTraining() = default;

void CohortTraining::move_by(const Movement& movement, int64_t trained) {
  own_sizes_->move_by(movement);
  if (movement.phases.empty()) return;
  std::vector<uint8_t> moves(movement.phases.size() * to_index(trained));
  for (std::size_t i = 0; i < movement.phases.size(); ++i) {
    const auto phase = moves.begin() + static_cast<int64_t>(i) * trained;
    for (const RowPart& part : movement.phases[i].part.parts) {
      std::fill(phase + part.begin, phase + part.end, uint8_t{1});
    }
  }
  cohort_->put_parts(moves);
}

void CohortTraining::upload_all() {
  constexpr int64_t kChunk = 4096;
  std::vector<float> features(
      to_index(std::min(kChunk, source_.federation.samples()) * source_.values()));
  for (int64_t begin = 0; begin < source_.federation.samples(); begin += kChunk) {
    const SampleRange chunk{begin, std::min(begin + kChunk, source_.federation.samples())};
    source_.read({.begin = begin}, chunk.size(), features.data());
    cohort_->put(begin, batch_of(source_.federation, chunk, features.data()));
  }
}

// rows_[place + i] <- the place of sample begin + order[i] on the device, where it is after
// bring(place + order.size()).
void CohortTraining::locate(int64_t begin, std::span<const int32_t> order, int64_t place) {
  auto at = static_cast<std::size_t>(place);
  if (!holds_all_) {
    source_.read({begin, order.data()}, std::ssize(order),
                 staged_.features.data() + place * source_.values());
  }
  const std::size_t values = to_index(source_.federation.label_form().values);
  const auto copy = [&](const auto& all, auto& to, std::size_t sample) {
    if (!to.empty()) std::copy_n(all.begin() + sample * values, values, &to[at * values]);
  };
  for (const int32_t offset : order) {
    const auto sample = static_cast<std::size_t>(begin + offset);
    copy(source_.federation.labels(), staged_.labels, sample);
    copy(source_.federation.targets(), staged_.targets, sample);
    rows_[at] = holds_all_ ? begin + offset : static_cast<int64_t>(at);
    ++at;
  }
}

// Puts the places of a client's next mini-batch on the device into rows_, from `first` on. Returns
// its samples.
int64_t CohortTraining::list_batch(std::size_t place, int64_t first) {
  if (changes_ == Changes::kOnHost) return put_changed(place);
  const auto [begin, order] = streams_[place].next_samples();
  locate(begin, order, first);
  if (changes_ == Changes::kOnDevice) change(place, first, std::ssize(order));
  return std::ssize(order);
}

// Draws what the device makes of these samples. Their places in rows_ become those of its images.
void CohortTraining::change(std::size_t place, int64_t first, int64_t samples) {
  const auto rows = std::span(rows_).subspan(to_index(first), to_index(samples));
  const auto changes = std::span(table_.images).subspan(to_index(first), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) changes[i].place = rows[i];
  streams_[place].draw(changes);
  std::iota(rows.begin(), rows.end(), first_changed(place));
}

// list_batch() where the host changes the samples, and brings those of one step.
int64_t CohortTraining::put_changed(std::size_t place) {
  Batch batch = streams_[place].next();
  if (source_.frozen != nullptr) {
    AlignedFloats& frozen = staged_.features;  // which no batch is in now
    frozen.resize(std::max(frozen.size(), to_index(batch.rows * source_.values())));
    source_.frozen->gather(batch, frozen.data());
    batch.features = frozen.data();
  }
  const int64_t first = first_changed(place);
  cohort_->put(first, batch);
  const auto rows = rows_.begin() + static_cast<int64_t>(place) * batch_;
  std::iota(rows, rows + batch.rows, first);
  return batch.rows;
}

void CohortTraining::bring(int64_t samples) {
  if (holds_all_) return;
  staged_.rows = samples;
  cohort_->put(0, staged_.view());
}

// The next mini-batch of a client, into its place of the step. Behind it stand samples of the same
// client, with no weight: those of others might not be finite.
void CohortTraining::next_batch(std::size_t step, std::size_t place) {
  const std::size_t at = step * streams_.size() + place;
  table_.counts[at] = 0;
  table_.sizes[at] = {.scale = 0};
  if (steps_left_[place] == 0) return;
  const int64_t first = static_cast<int64_t>(at) * batch_;
  table_.counts[at] = list_batch(place, first);
  const auto rows = rows_.begin() + first;
  std::fill(rows + table_.counts[at], rows + batch_, *rows);
  const int64_t all = steps_[place];
  table_.sizes[at] = own_sizes_->next(
      place, {.done = all - steps_left_[place], .all = all, .unit = streams_[place].unit()},
      table_.counts[at]);
  --steps_left_[place];
}

std::vector<ClientOutcome> CohortTraining::train(std::span<const ClientTask> tasks,
                                                 const Cohort::Start& start,
                                                 const Step& make_step) {
  std::vector<ClientOutcome> outcomes(tasks.size());
  const std::size_t places = streams_.size();
  std::ranges::fill(steps_, 0);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    streams_[i].start(tasks[i]);
    noise_[i] = dropout_key(tasks[i]);
    steps_[i] = streams_[i].steps();
    const auto weights = streams_[i].class_weights();
    if (i == 0) class_weights_.assign(tasks.size() * weights.size(), 0);
    std::ranges::copy(weights, class_weights_.begin() + static_cast<int64_t>(i * weights.size()));
  }
  squares_ = tasks.front().squares;
  steps_left_ = steps_;
  Cohort::Start begin = start;
  begin.noise = std::span(noise_).first(tasks.size());
  begin.moments = own_sizes_->start(tasks, cohort_->moment_values());
  begin.class_weights = class_weights_;
  begin.squares = squares_;
  cohort_->start(begin);
  const auto at_once = static_cast<int64_t>(table_.counts.size()) / clients_;
  int64_t made = 0;
  for (auto left = *std::max_element(steps_.begin(), steps_.end()); left > 0; left -= at_once) {
    const auto some = static_cast<std::size_t>(std::min(left, at_once));
    for (std::size_t step = 0; step < some; ++step) {
      for (std::size_t place = 0; place < places; ++place) next_batch(step, place);
    }
    if (changes_ != Changes::kOnHost) bring(clients_ * batch_);
    const std::size_t samples = some * places * to_index(batch_);
    cohort_->put_steps(
        {.places = std::span(rows_).first(samples),
         .counts = std::span(table_.counts).first(some * places),
         .sizes = std::span(table_.sizes).first(some * places),
         .changes = std::span(table_.images).first(std::min(table_.images.size(), samples))});
    make_steps(static_cast<int64_t>(some), made, make_step);
    made += static_cast<int64_t>(some);
    for (std::size_t step = 0; step < some; ++step) {
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        outcomes[i].samples += table_.counts[step * places + i];
      }
    }
  }
  own_sizes_->finish(tasks, *cohort_);
  return outcomes;
}

// The first places of which all have to act in a step that was put, because the last has samples
// there. Few different numbers: kernels are recorded for each.
int64_t CohortTraining::acting(std::size_t step) const {
  const auto counts = std::span(table_.counts).subspan(step * streams_.size(), streams_.size());
  int64_t last = clients_;
  while (last > 1 && counts[to_index(last - 1)] == 0) --last;
  int64_t all = clients_;
  while ((all + 1) / 2 >= last && all > 1) all = (all + 1) / 2;
  return all;
}

// Makes the first `count` of the steps that were put, behind `made` others of the round.
void CohortTraining::make_steps(int64_t count, int64_t made, const Step& make_step) {
  for (int64_t step = 0; make_step && step < count; ++step) make_step(step, made + step + 1);
  for (int64_t first = 0, end = 0; !make_step && first < count; first = end) {
    const int64_t clients = acting(to_index(first));
    while (end < count && acting(to_index(end)) == clients) ++end;
    cohort_->steps(first, end - first, clients);
  }
}

void CohortTraining::finish(std::span<const double> losses,
                            std::span<ClientOutcome> outcomes) const {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    outcomes[i].loss = steps_[i] > 0 ? losses[i] / static_cast<double>(steps_[i]) : 0;
  }
  if (!squares_) return;
  std::vector<double> squares(streams_.size());
  cohort_->take_squares(squares);
  for (std::size_t i = 0; i < outcomes.size(); ++i) outcomes[i].squares = squares[i];
}

EvaluationSums CohortTraining::range(SampleRange range, SampleResults results) {
  EvaluationSums sums;
  ask(range, results, sums);
  finish();
  return sums;
}

void CohortTraining::ask(SampleRange range, SampleResults results, EvaluationSums& sums) {
  std::vector<int32_t> order(static_cast<std::size_t>(range.size()));
  std::iota(order.begin(), order.end(), 0);
  evaluate(range.begin, order, results, sums);
}

EvaluationSums CohortTraining::chosen(int64_t begin, std::span<const int32_t> order) {
  EvaluationSums sums;
  evaluate(begin, order, {}, sums);
  finish();
  return sums;
}

void CohortTraining::evaluate(int64_t begin, std::span<const int32_t> order, SampleResults results,
                              EvaluationSums& sums) {
  sums = {};
  constexpr auto kMost = static_cast<std::size_t>(kEvaluationRows);
  for (std::size_t first = 0; first < order.size(); first += kMost) {
    const auto part = order.subspan(first, std::min(kMost, order.size() - first));
    locate(begin, part, 0);
    bring(static_cast<int64_t>(part.size()));
    cohort_->evaluate(std::span(rows_).first(part.size()),
                      results.from(static_cast<int64_t>(first)));
    asked_.push_back(&sums);
  }
}

void CohortTraining::finish() {
  const std::vector<EvaluationSums> found = cohort_->take_evaluations();
  for (std::size_t i = 0; i < found.size(); ++i) *asked_[i] += found[i];
  asked_.clear();
}

}  // namespace hanse
