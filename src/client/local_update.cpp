#include "hanse/client/local_update.hpp"

#include <algorithm>
#include <cstdlib>

#include "hanse/base/decay.hpp"

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

int64_t samples_processed(const ClientOptions& options, int64_t samples) {
  const auto [passes, rest] =
      std::div(local_steps(options, samples), steps_a_pass(options, samples));
  const int64_t pass = samples_a_pass(options, samples);
  return passes * pass + std::min(rest * batch_of(options, samples), pass);
}

double learning_rate(const ClientOptions& options, int64_t round) {
  return stepwise_decay(options.lr, options.lr_decay, options.lr_decay_every, round);
}

double feedback_scale(const ClientOptions& options, int64_t round, int64_t samples) {
  if (options.kind == "scaffold") return 1;
  const double lr = learning_rate(options, round);
  return 1 / (lr * lr * static_cast<double>(local_steps(options, samples)));
}

double propfair_slope(const PropfairOptions& options, double loss) {
  if (options.base <= 0) return 1;
  const double room = options.base - loss;  // M - F
  if (room >= PropfairOptions::kLeastRoom) return 1 / room;
  return 1 / (options.reference ? options.base : PropfairOptions::kLeastRoom);
}

}  // namespace hanse
