#include "hanse/client/local_update.hpp"

#include <algorithm>
#include <cstdlib>

#include "hanse/base/random.hpp"
#include "hanse/client/schedule.hpp"

namespace hanse {

namespace {

int64_t batch_of(const ClientOptions& options, int64_t samples) {
  return options.batch > 0 ? std::min(options.batch, samples) : samples;
}

int64_t steps_a_pass(const ClientOptions& options, int64_t samples) {
  const int64_t batch = batch_of(options, samples);
  return (samples_a_pass(options, samples) + batch - 1) / batch;
}

}  // namespace

int64_t samples_a_pass(const ClientOptions& options, int64_t samples) {
  return options.drop_last ? samples - samples % batch_of(options, samples) : samples;
}

int64_t loss_samples(const ClientOptions& options, int64_t batches, int64_t samples) {
  return batches == 0 ? samples : std::min(samples, batches * batch_of(options, samples));
}

int64_t local_steps(const ClientOptions& options, int64_t samples) {
  return options.steps > 0 ? options.steps : options.epochs * steps_a_pass(options, samples);
}

int64_t steps_of_task(const ClientOptions& options, const ClientTask& task, int64_t samples) {
  const int64_t all = local_steps(options, samples);
  if (options.stragglers == 0) return all;
  RandomStream stream(task.seed, Purpose::kStraggling, static_cast<uint64_t>(task.round),
                      static_cast<uint64_t>(task.client));
  if (stream.uniform() >= options.stragglers) return all;
  const int64_t parts = options.steps > 0 ? options.steps : options.epochs;
  return all / parts * (1 + stream.below(parts));
}

int64_t samples_processed(const ClientOptions& options, int64_t samples) {
  const auto [passes, rest] =
      std::div(local_steps(options, samples), steps_a_pass(options, samples));
  const int64_t pass = samples_a_pass(options, samples);
  return passes * pass + std::min(rest * batch_of(options, samples), pass);
}

int64_t optimizer_steps(const ClientOptions& options, int64_t samples) {
  return (local_steps(options, samples) + options.accumulate - 1) / options.accumulate;
}

double feedback_scale(const ClientOptions& options, int64_t round, int64_t samples) {
  if (options.kind == "scaffold") return 1;
  const int64_t steps = optimizer_steps(options, samples);
  double lr = learning_rate(options, round);
  if (options.schedule.over == "steps") {
    lr = 0;
    for (int64_t step = 0; step < steps; ++step) lr += step_size(options, round, step, steps);
    lr /= static_cast<double>(steps);
  }
  return 1 / (lr * lr * static_cast<double>(steps));
}

std::string beyond_plain_steps(const ClientOptions& options) {
  if (options.optimizer.kind != "sgd") return "client.optimizer";
  if (options.momentum > 0) return "client.momentum";
  if (options.clip > 0) return "client.clip";
  if (options.accumulate > 1) return "client.accumulate";
  return options.schedule.over == "steps" ? "client.schedule-over" : "";
}

std::string own_loss_key(const ClientOptions& options) {
  if (!options.objective.empty()) return "client.objective";
  if (options.label_smoothing > 0) return "client.label-smoothing";
  return options.class_weights != "none" ? "client.class-weights" : "";
}

double propfair_slope(const PropfairOptions& options, double loss) {
  if (options.base <= 0) return 1;
  const double room = options.base - loss;  // M - F
  if (room >= PropfairOptions::kLeastRoom) return 1 / room;
  return 1 / (options.reference ? options.base : PropfairOptions::kLeastRoom);
}

std::string augmentation_key(const AugmentationOptions& options) {
  if (options.crop > 0) return "client.crop";
  if (options.flip > 0) return "client.flip";
  if (options.cutout > 0) return "client.cutout";
  return options.mixup > 0 ? "client.mixup" : "";
}

}  // namespace hanse
