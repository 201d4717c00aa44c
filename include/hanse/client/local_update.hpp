// What a participant does with the model it receives.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hanse/client/options.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// One participation.
struct ClientTask {
  int64_t client = 0;
  int64_t round = 0;       // from 1
  uint64_t seed = 0;       // run.seed
  std::span<float> row;    // [P]: the received model on entry, the local model on return
  std::span<float> state;  // [state_width()] of this client, zero at its first participation
  std::span<const float> control;   // [control_width()] the server's control variate c
  std::span<float> control_change;  // [control_width()] out: by how much the client's own one moved
  std::span<const float> anchor;    // [P] what a proximal term pulls to; empty: the received model
  int64_t next = -1;                // the client that trains here next, if known; for speed alone
};

struct ClientOutcome {
  double loss = 0;      // mean of the mini-batch losses of the round
  int64_t samples = 0;  // samples processed, over all steps
  double rate = 0;      // d, by how much its own step would lower its loss; where rules need it
};

class CohortTraining;
class CohortUpdate;
class SideBySide;

class LocalUpdate {
 public:
  // `state`: what a client keeps between rounds, block behind block; none: nothing.
  explicit LocalUpdate(std::vector<StateBlock> state = {}) : state_(std::move(state)) {}
  virtual ~LocalUpdate() = default;
  // A pure function of the task, the options and the client's samples.
  virtual ClientOutcome train(const ClientTask& task) = 0;
  const std::vector<StateBlock>& state_blocks() const { return state_; }
  // Floats that a client keeps between rounds: of all blocks.
  int64_t state_width() const { return width_of(state_); }
  // Floats of the control variate that the server sends with the model, and that moves by the
  // weighted sum of the clients' control_change; 0: none.
  virtual int64_t control_width() const { return 0; }
  // Does the server keep the control variate and send it? If not, task.control is empty, and the
  // sum of the changes goes to the server's optimizer alone.
  virtual bool control_returns() const { return true; }
  // Does train() leave the update itself in task.row, and not the model behind it? A small update
  // of a large model keeps all its digits then.
  virtual bool sends_direction() const { return false; }
  // train() in parts, whose steps CohortTraining of the same options can make; null: it cannot.
  virtual SideBySide* side_by_side() { return nullptr; }
  // Has it a cohort_update(), of which those parts are one kind? `cohorts` must outlive it, as this
  // object must.
  virtual bool trains_side_by_side() { return side_by_side() != nullptr; }
  virtual std::unique_ptr<CohortUpdate> cohort_update(CohortTraining& cohorts, int64_t n_params);

  // Turns the received model in `row` [P] into the one that the client starts from; `state` is the
  // client's, zero before its first participation. Here: the same.
  virtual void receive(std::span<const float> /*state*/, std::span<float> /*row*/) const {}
  // Turns the received model in task.row into the client's own, the one it would use for itself.
  // What else it leaves in the task counts for nothing. Here: the model after a round of training,
  // for clients that keep none. REQUIRES: not sends_direction().
  virtual void own_model(const ClientTask& task) { train(task); }
  // Does own_model() take the model that train() left in the state? A client that never took part
  // has none until it trains for the first time.
  virtual bool keeps_own_model() const { return false; }

 protected:
  template <class Float>
  std::span<Float> block(std::span<Float> state, std::string_view name) const {
    return state_block(state_, state, name);
  }

  std::vector<StateBlock> state_;
};

// Mini-batch SGD, or the steps of another options.optimizer (kinds.hpp), of sizes by
// options.schedule. Every epoch visits the client's samples in a fresh order (stream of seed,
// kShuffle, round, client); the last batch of an epoch may be smaller, or is left out then
// (drop_last). With accumulate = n each n mini-batches in a row, and what is left of them at the
// end of the round, make one step by the mean gradient of their samples. `model` and `federation`
// must outlive the object. Memory: a row a moment, a gradient row with clipping, two with
// accumulation, and one batch. State, with optimizer.state = kept: the moments and their age.
std::unique_ptr<LocalUpdate> make_sgd(const ClientOptions& options, const Federation& federation,
                                      Model& model);

// SCAFFOLD (Karimireddy et al. 2020, Algorithm 1, option II): every step is corrected by how much
// the mean gradient of all clients differs from the client's own, so that clients of unlike data
// do not drift apart. For K local steps from the received x
//   y <- y - lr (g(y) - c_i + c),  then  c_i+ = c_i - c + (x - y)/(K lr),
// with c_i the client's state and c the server's control variate; c_i+ is the mean of the K
// gradients, weight decay and PropFair's slope among them. With momentum v <- momentum v + g - c_i
// + c, y <- y - lr v, from v = 0 in each round; K is then effective_steps(), which makes c_i+ the
// mean of the gradients with the weights that they have in x - y. Batches are those of SGD.
// REQUIRES: plain steps (beyond_plain_steps) but for momentum, which clients do not keep, since
// else c_i+ would be no mean of gradients.
// Known weakness: c_i is as old as the client's last participation. Memory: two rows and one batch,
// the state, and twice SGD's bytes on the network. Cost: SGD's and one pass over the row a step.
std::unique_ptr<LocalUpdate> make_scaffold(const ClientOptions& options,
                                           const Federation& federation, Model& model);

// Ditto (Li et al. 2021, Algorithm 1). The row is trained as by make_sgd, bit for bit; beside it
// the client moves a model v of its own, which never leaves it, by as many steps on the same
// batches
//   v <- v - lr (grad F(v) + lambda (v - w)),  w the received model.
// The authors start v from the first w of all; here it starts from the first that the client
// receives, and until then it is the model of the day. Momentum, weight decay and clipping are
// those of both parts. lambda = 0: v is trained alone; it diverges beyond lr lambda = 2. State: v
// and a flag. Cost: twice SGD's, and a row.
std::unique_ptr<LocalUpdate> make_ditto(const ClientOptions& options, const Federation& federation,
                                        Model& model);

// DQN-Fed's client (Mohajer Hamidi and Ye 2025, Algorithm 1): the row returns as -g, with g the
// gradient at the last iterate of the round's local steps ("last", as printed), the mean of all
// their gradients ("mean"), or lr times their sum ("update", theta - theta_i as in the paper's
// Appendix B). "auto" is "update" where some client makes more than one step, else "last", so that
// all clients of a job send the same. The outcome's rate is d = g^T B g (eq. 18), B by L-BFGS on
// the last `pairs` pairs of models and gradients ("l-bfgs"), or lr |g|^2 ("gradient"), also until
// there is a pair; both at most `rate_limit` times the loss: a Newton step of a quadratic loss that
// is never negative gains at most 2 F to first order, and a direction of nearly no curvature would
// claim any gain. AdaFed (Mohajer Hamidi and Yang 2024) asks for F^`rate_power`, F the mean loss of
// the local steps ("loss"). A round's first pair leads from the model of the client's last
// participation to the received one, the others from iterate to iterate; both gradients of a pair
// are of one mini-batch, and a pair without curvature is skipped. (The paper updates B by the
// formula for its inverse; here B is the inverse.) REQUIRES: client.update = sgd and plain steps
// (beyond_plain_steps). State: the last model, with client.batch = 0 the gradient there, and 2
// (`pairs` + f) rows, where a round makes f < `pairs`. Rounds of `pairs` steps or more use their
// own pairs alone: no rows of pairs, and with more steps no state. Cost: a gradient a step, another
// for each of the last `pairs` steps unless batches are full, and the pairs' inner products: one
// pass over their rows, or less where gradients in factors (GradientRecord) take less.
std::unique_ptr<LocalUpdate> make_quasi_newton(const ClientOptions& options,
                                               const Federation& federation, Model& model);

// Samples that a pass over `samples` >= 1 training samples visits: all of them, or with drop_last
// those in whole batches, one of all where there are fewer than client.batch; and those that its
// loss F_i is measured on, of so many mini-batches, all when `batches` is 0.
int64_t samples_a_pass(const ClientOptions& options, int64_t samples);
int64_t loss_samples(const ClientOptions& options, int64_t batches, int64_t samples);
// Mini-batch steps of a client with `samples` training samples in one round.
int64_t local_steps(const ClientOptions& options, int64_t samples);
// Those that it makes in the task's round: fewer where it is one of `options.stragglers`, which
// make 1 to E of their E epochs, or of their steps, each number as likely (Li et al. 2020, FedProx,
// section 5.2). A pure function of its arguments.
int64_t steps_of_task(const ClientOptions& options, const ClientTask& task, int64_t samples);
// Samples that these steps process; the last batch of a pass may be smaller.
int64_t samples_processed(const ClientOptions& options, int64_t samples);
// Steps that they make: one for each options.accumulate of them, and one for what is left.
int64_t optimizer_steps(const ClientOptions& options, int64_t samples);
// What turns a client's |theta_i - theta|^2 into the |g_i|^2 that a sampler learns from: 1/(lr^2
// B), lr the mean of the round's step sizes and B = optimizer_steps, so that a_i = lambda_i^2
// |sum_b g_b|^2 / B (Zhao et al. 2025, Algorithm 4, line 14). 1 for scaffold (there, Appendix E).
// REQUIRES: lr > 0.
double feedback_scale(const ClientOptions& options, int64_t round, int64_t samples);

// The key that makes the steps of a round more than w <- w - lr g, all of one size; empty: none.
std::string beyond_plain_steps(const ClientOptions& options);
// The key that gives training another loss than model.loss; empty: none.
std::string own_loss_key(const ClientOptions& options);

}  // namespace hanse
