#include "hanse/client/cohort_training.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "batch_stream.hpp"
#include "hanse/base/index.hpp"
#include "hanse/model/torch_library.hpp"
#include "optimizer.hpp"

namespace hanse {

namespace {

// Steps whose samples are uploaded at once: the host shuffles more while the device makes them.
constexpr int64_t kStepsAtOnce = 32;

Cohort::Settings cohort_settings(const ClientOptions& options, const std::string& device,
                                 int64_t clients, int64_t batch, int64_t samples, bool graphs,
                                 const PartModel* part) {
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
      .graphs = graphs,
      .part = part,
  };
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
                               int64_t clients, int64_t sample_bytes, bool graphs,
                               const PartModel* part)
    : schedule_(options),
      stepping_(std::make_unique<Stepping>(options)),
      accumulate_(options.accumulate),
      keeps_moments_(keeps_moments(options)),
      federation_(federation),
      device_(device),
      clients_(clients),
      batch_(largest_batch(options, federation)),
      window_(std::max(clients * batch_, kEvaluationRows)),
      holds_all_(federation.samples() * (federation.sample_values() + 1) * 4 <= sample_bytes),
      cohort_(torch_library().make_cohort(
          model, federation.sample_shape(), federation.classes(),
          cohort_settings(options, device, clients, batch_,
                          holds_all_ ? federation.samples() : window_, graphs, part))) {
  const auto places = static_cast<std::size_t>(clients);
  const auto window = static_cast<std::size_t>(window_);
  streams_.reserve(places);
  while (streams_.size() < places) streams_.emplace_back(options, federation);
  noise_.resize(places);
  rounds_.resize(places);
  steps_.resize(places);
  const int64_t steps = holds_all_ ? kStepsAtOnce : 1;
  counts_.resize(static_cast<std::size_t>(steps) * places);
  sizes_.resize(counts_.size());
  ages_.resize(places);
  gathered_.resize(places);
  rows_.resize(std::max(window, static_cast<std::size_t>(steps * clients_ * batch_)));
  if (holds_all_) {
    upload_all();
  } else {
    staged_.features.resize(window * static_cast<std::size_t>(federation.sample_values()));
    (federation.classes() > 0 ? staged_.labels.resize(window) : staged_.targets.resize(window));
  }
}

CohortTraining::~CohortTraining() = default;

void CohortTraining::move_by(const Movement& movement, int64_t trained) {
  movement_ = movement;
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
  std::vector<float> features(static_cast<std::size_t>(kChunk * federation_.sample_values()));
  for (int64_t begin = 0; begin < federation_.samples(); begin += kChunk) {
    const SampleRange chunk{begin, std::min(begin + kChunk, federation_.samples())};
    federation_.copy(chunk, features.data());
    cohort_->put(begin, batch_of(federation_, chunk, features.data()));
  }
}

// rows_[place + i] <- the place of sample begin + order[i] on the device, where it is after
// bring(place + order.size()).
void CohortTraining::locate(int64_t begin, std::span<const int32_t> order, int64_t place) {
  auto at = static_cast<std::size_t>(place);
  if (!holds_all_) {
    float* features = staged_.features.data() + place * federation_.sample_values();
    federation_.gather(begin, order, features);
  }
  for (const int32_t offset : order) {
    const auto sample = static_cast<std::size_t>(begin + offset);
    if (!staged_.labels.empty()) staged_.labels[at] = federation_.labels()[sample];
    if (!staged_.targets.empty()) staged_.targets[at] = federation_.targets()[sample];
    rows_[at] = holds_all_ ? begin + offset : static_cast<int64_t>(at);
    ++at;
  }
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
  counts_[at] = 0;
  sizes_[at] = {.scale = 0};
  if (steps_left_[place] == 0) return;
  const auto [begin, order] = streams_[place].next_samples();
  const int64_t first = static_cast<int64_t>(at) * batch_;
  locate(begin, order, first);
  counts_[at] = static_cast<int64_t>(order.size());
  const auto rows = rows_.begin() + first;
  std::fill(rows + counts_[at], rows + batch_, *rows);
  PhaseWalk& walk = walks_[place];
  if (walk.next(streams_[place].unit())) ages_[place] += walk.age_change();
  next_size(sizes_[at], place, counts_[at]);
  sizes_[at].part = static_cast<int64_t>(walk.number());
  --steps_left_[place];
}

// The size of the step that ends with a mini-batch of so many samples; without one it stays.
void CohortTraining::next_size(StepSize& size, std::size_t place, int64_t samples) {
  const int64_t all = steps_[place], done = all - steps_left_[place];
  gathered_[place] += samples;
  if (done + 1 < all && (done + 1) % accumulate_ != 0) return;
  const double lr =
      schedule_.rate(rounds_[place], done / accumulate_, (all + accumulate_ - 1) / accumulate_);
  const auto gathered = static_cast<double>(std::exchange(gathered_[place], 0));
  size = stepping_->size(lr, accumulate_ > 1 ? 1 / gathered : 1, ++ages_[place]);
}

// A task's state begins with its moments and their age.
void CohortTraining::read_moments(std::span<const ClientTask> tasks) {
  std::ranges::fill(ages_, 0);
  if (!keeps_moments_) return;
  const std::size_t width = to_index(cohort_->moment_values());
  moments_.clear();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto own = tasks[i].state.first(width);
    moments_.insert(moments_.end(), own.begin(), own.end());
    ages_[i] = static_cast<int64_t>(tasks[i].state[width]);
  }
}

void CohortTraining::keep_moments(std::span<const ClientTask> tasks) {
  if (!keeps_moments_) return;
  const std::size_t width = to_index(cohort_->moment_values());
  cohort_->take_moments(moments_);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::copy_n(moments_.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                tasks[i].state.begin());
    tasks[i].state[width] = static_cast<float>(ages_[i]);
  }
}

std::vector<ClientOutcome> CohortTraining::train(std::span<const ClientTask> tasks,
                                                 const Cohort::Start& start,
                                                 const Step& make_step) {
  std::vector<ClientOutcome> outcomes(tasks.size());
  const std::size_t places = streams_.size();
  std::ranges::fill(steps_, 0);
  std::ranges::fill(gathered_, 0);
  walks_.clear();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    walks_.emplace_back(movement_, tasks[i].round);
    streams_[i].start(tasks[i]);
    noise_[i] = dropout_key(tasks[i]);
    rounds_[i] = tasks[i].round;
    steps_[i] = streams_[i].steps();
  }
  steps_left_ = steps_;
  Cohort::Start begin = start;
  begin.noise = std::span(noise_).first(tasks.size());
  read_moments(tasks);
  begin.moments = moments_;
  cohort_->start(begin);
  const auto at_once = static_cast<int64_t>(counts_.size()) / clients_;
  int64_t made = 0;
  for (auto left = *std::max_element(steps_.begin(), steps_.end()); left > 0; left -= at_once) {
    const auto some = static_cast<std::size_t>(std::min(left, at_once));
    for (std::size_t step = 0; step < some; ++step) {
      for (std::size_t place = 0; place < places; ++place) next_batch(step, place);
    }
    bring(clients_ * batch_);
    cohort_->put_steps({.places = std::span(rows_).first(some * places * to_index(batch_)),
                        .counts = std::span(counts_).first(some * places),
                        .sizes = std::span(sizes_).first(some * places)});
    make_steps(static_cast<int64_t>(some), made, make_step);
    made += static_cast<int64_t>(some);
    for (std::size_t step = 0; step < some; ++step) {
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        outcomes[i].samples += counts_[step * places + i];
      }
    }
  }
  keep_moments(tasks);
  return outcomes;
}

// The first places of which all have to act in a step that was put, because the last has samples
// there. Few different numbers: kernels are recorded for each.
int64_t CohortTraining::acting(std::size_t step) const {
  const auto counts = std::span(counts_).subspan(step * streams_.size(), streams_.size());
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
