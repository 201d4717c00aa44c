#include "hanse/client/round_steps.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "hanse/base/random.hpp"

namespace hanse {

int64_t expected_batch(const LocalWork& work, int64_t samples) {
  return std::max<int64_t>(1, work.batch > 0 ? std::min(work.batch, samples) : samples);
}

namespace {

int64_t steps_a_pass(const LocalWork& work, int64_t samples) {
  const int64_t batch = expected_batch(work, samples);
  return (samples_a_pass(work, samples) + batch - 1) / batch;
}

// a b, or the largest number. REQUIRES: a, b >= 0.
int64_t product(int64_t a, int64_t b) {
  int64_t found = 0;
  return __builtin_mul_overflow(a, b, &found) ? std::numeric_limits<int64_t>::max() : found;
}

}  // namespace

int64_t length_of_round(const LocalWork& work) {
  if (!work.phases.list.empty()) return work.phases.length();
  return work.steps > 0 ? work.steps : work.epochs;
}

int64_t samples_a_pass(const LocalWork& work, int64_t samples) {
  return work.drop_last ? samples - samples % expected_batch(work, samples) : samples;
}

int64_t loss_samples(const LocalWork& work, int64_t batches, int64_t samples) {
  return batches == 0 ? samples
                      : std::min(samples, product(batches, expected_batch(work, samples)));
}

int64_t steps_of_length(const LocalWork& work, int64_t samples) {
  return work.steps > 0 ? 1 : steps_a_pass(work, samples);
}

int64_t local_steps(const LocalWork& work, int64_t samples) {
  return product(length_of_round(work), steps_of_length(work, samples));
}

int64_t steps_of_task(const LocalWork& work, const ClientTask& task, int64_t samples) {
  const int64_t all = local_steps(work, samples);
  if (task.steps > 0) return std::min(task.steps, all);
  if (work.stragglers == 0) return all;
  RandomStream stream(task.seed, Purpose::kStraggling, static_cast<uint64_t>(task.key()),
                      static_cast<uint64_t>(task.client));
  if (stream.uniform() >= work.stragglers) return all;
  const int64_t parts = length_of_round(work);
  return all / parts * (1 + stream.below(parts));
}

int64_t samples_processed(const LocalWork& work, int64_t samples, int64_t steps) {
  if (samples == 0) return 0;
  const int64_t made = steps > 0 ? steps : local_steps(work, samples);
  const auto [passes, rest] = std::div(made, steps_a_pass(work, samples));
  const int64_t pass = samples_a_pass(work, samples);
  return product(passes, pass) + std::min(rest * expected_batch(work, samples), pass);
}

int64_t RoundSteps::optimizer_steps(int64_t samples, int64_t made) const {
  const int64_t batches = made > 0 ? made : local_steps(work_, samples);
  return (batches + steps_.accumulate - 1) / steps_.accumulate;
}

int64_t RoundSteps::optimizer_steps(const ClientTask& task, int64_t samples) const {
  return optimizer_steps(samples, steps_of_task(work_, task, samples));
}

double RoundSteps::effective_steps(int64_t round, int64_t samples, int64_t made) const {
  const int64_t steps = optimizer_steps(samples, made);
  const bool moves = schedule_.moves_within_rounds();
  double velocity = 0, sum = 0;  // of gradients that are all 1
  for (int64_t step = 0; step < steps; ++step) {
    velocity = steps_.momentum * velocity + 1;
    const double direction = steps_.optimizer.nesterov ? 1 + steps_.momentum * velocity : velocity;
    sum += (moves ? schedule_.rate(round, step, steps) / steps_.lr : 1) * direction;
  }
  return sum;
}

double RoundSteps::feedback_scale(int64_t round, int64_t samples, int64_t made) const {
  const int64_t steps = std::max<int64_t>(1, optimizer_steps(samples, made));
  double lr = schedule_.rate(round);
  if (schedule_.moves_within_rounds()) {
    lr = 0;
    for (int64_t step = 0; step < steps; ++step) lr += schedule_.rate(round, step, steps);
    lr /= static_cast<double>(steps);
  }
  return 1 / (lr * lr * static_cast<double>(steps));
}

}  // namespace hanse
