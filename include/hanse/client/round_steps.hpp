// The steps that a client makes in a round: how many, of which sizes, on how many samples.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/client/client_task.hpp"
#include "hanse/client/options.hpp"
#include "hanse/client/schedule.hpp"

namespace hanse {

// Samples that a pass over `samples` >= 1 training samples visits: all, or with drop_last those in
// whole batches, or one batch of all if they are fewer than `batch`. The other counts the samples
// that measure its loss F_i: so many mini-batches, all when `batches` is 0.
int64_t samples_a_pass(const LocalWork& work, int64_t samples);
int64_t loss_samples(const LocalWork& work, int64_t batches, int64_t samples);
// Samples of a mini-batch of a client with `samples` of them, at most or, where they are drawn,
// expected; at least 1.
int64_t expected_batch(const LocalWork& work, int64_t samples);
// The work of a round: epochs, or mini-batches where work.steps > 0; and the mini-batches of one of
// them.
int64_t length_of_round(const LocalWork& work);
int64_t steps_of_length(const LocalWork& work, int64_t samples);
// Mini-batch steps of a client with `samples` training samples in one round.
int64_t local_steps(const LocalWork& work, int64_t samples);
// Steps that it makes in the task: fewer with task.steps, or if it is one of `work.stragglers`,
// which make 1 to E of their E epochs, or of their steps, each number as likely (Li et al. 2020,
// FedProx, section 5.2). A pure function of its arguments.
int64_t steps_of_task(const LocalWork& work, const ClientTask& task, int64_t samples);
// Samples that so many steps of it process, or (0) all of a round; the last batch of a pass may be
// smaller.
int64_t samples_processed(const LocalWork& work, int64_t samples, int64_t steps = 0);

class RoundSteps {
 public:
  explicit RoundSteps(const ClientOptions& options = {})
      : work_(options), steps_(options), schedule_(options) {}

  const LocalWork& work() const { return work_; }
  const Schedule& schedule() const { return schedule_; }

  // Steps of a round that the optimizer makes: one for each accumulate mini-batches, and one for
  // what is left. `made`, here and below: mini-batches, where the client made fewer than all; 0:
  // all.
  int64_t optimizer_steps(int64_t samples, int64_t made = 0) const;
  // The same of the task, where its client may be a straggler.
  int64_t optimizer_steps(const ClientTask& task, int64_t samples) const;
  // tau_i, the sum of the weights with which the gradients of a round of a client with `samples`
  // training samples stand in its update over -lr: its steps, and with momentum rho their geometric
  // weights, sum_t (1 - rho^t) / (1 - rho), t = 1, ..., steps (FedNova, Wang et al. 2020). A step
  // whose size the schedule moves counts by its share of lr. REQUIRES: client.optimizer = sgd with
  // fresh moments. Cost: O(steps).
  double effective_steps(int64_t round, int64_t samples, int64_t made = 0) const;
  // K lr, K the effective steps: by it a client's way theta - theta_i becomes the mean of its
  // gradients.
  double path(int64_t round, int64_t samples, int64_t made = 0) const {
    return effective_steps(round, samples, made) * schedule_.rate(round);
  }
  // What turns a client's |theta_i - theta|^2 into the |g_i|^2 that a sampler learns from: 1/(lr^2
  // B), lr the mean of the round's step sizes and B = optimizer_steps, so that a_i = lambda_i^2
  // |sum_b g_b|^2 / B (Zhao et al. 2025, Algorithm 4, line 14). REQUIRES: lr > 0.
  double feedback_scale(int64_t round, int64_t samples, int64_t made = 0) const;

 private:
  LocalWork work_;
  StepOptions steps_;
  Schedule schedule_;
};

}  // namespace hanse
