// Options of a participant's work: a struct for each part that reads them. `hanse list` says the
// range and the use of each key; a member that the job sets by another key says which.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hanse/client/part_options.hpp"
#include "hanse/client/phases.hpp"
#include "hanse/client/second_order_options.hpp"

namespace hanse {

struct PrivateSteps;  // rules/privacy/private_steps.hpp

// How much a client does in a round: round_steps.hpp.
struct LocalWork {
  int64_t epochs = 1;      // passes over the client's samples; ignored when steps > 0
  int64_t steps = 0;       // mini-batch steps a round; 0: epochs
  int64_t batch = 20;      // samples a step; 0: all of the client's
  double stragglers = 0;   // share of participants that stop early
  LocalPhases phases;      // of a round; their lengths take the place of epochs and of steps > 0
  bool drop_last = false;  // leave out a pass's last batch where it is smaller
  bool pooled = false;     // on everybody's samples; set by run.protocol = centralized
};

enum class ScheduleOver { kRounds, kSteps };
constexpr auto choices_of(ScheduleOver) { return std::array{"rounds", "steps"}; }

// How the step size moves: schedule.hpp.
struct ScheduleOptions {
  std::string kind = "step";  // constant | step | exponential | linear | cosine | one-cycle
  ScheduleOver over = ScheduleOver::kRounds;  // of the run, or the steps of a client's round
  int64_t length = 0;  // rounds until its end; 0: run.rounds of the first start
  double end = 0;      // linear, cosine: share of client.lr at the end
  int64_t warmup = 0;  // rounds or steps in front of it, in which the rate rises linearly
};

// Moments of a client start from zero in every round, or go on.
enum class Moments { kFresh, kKept };
constexpr auto choices_of(Moments) { return std::array{"fresh", "kept"}; }

// torch.optim's rules and its defaults: optimizer.hpp.
struct OptimizerOptions {
  std::string kind = "sgd";  // sgd | adam | adamw | adagrad | rmsprop
  Moments state = Moments::kFresh;
  bool nesterov = false;  // sgd
  double beta1 = 0.9;     // adam, adamw: share of the first moment that stays
  double beta2 = 0.999;   // adam, adamw; rmsprop, 0.99: of the second moment
  double eps = 1e-8;      // added to the root of the second moment; adagrad: 1e-10
};

// How a step uses a gradient.
struct StepOptions {
  double lr = 0.1;             // step size; its largest, where the schedule moves it
  double lr_decay = 1;         // step, exponential: factor applied to lr ...
  int64_t lr_decay_every = 1;  // ... every so many rounds
  ScheduleOptions schedule;    // of lr
  OptimizerOptions optimizer;
  double momentum = 0;      // heavy ball, from zero in every round unless moments are kept
  double weight_decay = 0;  // L2, or decoupled (adamw)
  int64_t accumulate = 1;   // mini-batches whose mean gradient makes one step
  double clip = 0;          // largest gradient norm; 0: off
};

// The key that makes the steps of a round more than w <- w - lr g, all of one size; empty: none.
std::string beyond_plain_steps(const StepOptions& options);
// Rows that the optimizer of a client's steps has: velocity or moments.
int64_t moments_of(const StepOptions& options);
// Do clients keep moments between rounds?
bool keeps_moments(const StepOptions& options);

// PropFair (Zhang et al. 2022): clients minimise -log(M - F) of their mini-batch loss F, whose
// gradient is that of F over M - F. Below kLeastRoom the logarithm goes on as its tangent.
struct PropfairOptions {
  static constexpr double kLeastRoom = 0.2;
  double base = 0;         // M; 0: off
  bool reference = false;  // AAggFF's authors: F / M in place of the tangent
};

// Derivative of the client's objective by its loss F; 1 when off.
double propfair_slope(const PropfairOptions& options, double loss);

// The loss that a client minimises.
struct LossOptions {
  std::string objective;               // file of a loss of the user's own; empty: model.loss
  double label_smoothing = 0;          // share of a label that all classes get, [0, 1)
  std::string class_weights = "none";  // none | client | all | a list: ClassWeights
  PropfairOptions propfair;            // set by aggregator.kind = propfair
};

// The key that gives training another loss than model.loss; empty: none.
std::string own_loss_key(const LossOptions& options);

// How training changes images: class Augmentation.
struct AugmentationOptions {
  int64_t crop = 0;    // pixels of the border in which an image may move
  double flip = 0;     // probability that left and right change places, [0, 1]
  int64_t cutout = 0;  // side of a square of zeros; 0: none
  double mixup = 0;    // a of Beta(a, a), the share of a sample in its mixture; 0: none
};

// The key of the first augmentation that is asked for; empty: none.
std::string augmentation_key(const AugmentationOptions& options);

// What some clients do to the samples of their batches: class Poisoning.
enum class Poison { kNone, kFlip, kBackdoor };
struct PoisonOptions {
  Poison kind = Poison::kNone;
  std::vector<int64_t> clients = {};  // that do so, ascending
  int64_t first_round = 1, last_round = 0;
  int64_t source = 0;   // kFlip: the class that gets `target`
  int64_t target = -1;  // kFlip, -1: every class y gets C - 1 - y; kBackdoor, -1: 0
  int64_t patch = 3;    // kBackdoor: side in pixels of the ones in the lower right corner
  double share = 0.5;   // kBackdoor: of a batch, in (0, 1]
};

enum class LoweringRate { kLbfgs, kGradient, kLoss };
constexpr auto choices_of(LoweringRate) { return std::array{"l-bfgs", "gradient", "loss"}; }
enum class SentGradient { kAuto, kLast, kMean, kUpdate };
constexpr auto choices_of(SentGradient) { return std::array{"auto", "last", "mean", "update"}; }

// How clients send updates that lower every loss: DQN-Fed's, AdaFed's.
struct LoweringOptions {
  LoweringRate rate = LoweringRate::kLbfgs;
  double rate_power = 1;  // of LoweringRate::kLoss
  int64_t pairs = 10;     // m of l-bfgs
  double rate_limit = 2;  // of l-bfgs and gradient: d <= rate_limit F; 0: no limit
  SentGradient gradient = SentGradient::kAuto;
};

// The equations of the paper, or those of its authors' code where they differ.
enum class UpdateVariant { kPaper, kReference };
constexpr auto choices_of(UpdateVariant) { return std::array{"paper", "reference"}; }

// The method of training, and options of single methods.
struct UpdateOptions {
  std::string kind = "sgd";  // of client.update: kinds/updates.hpp
  double mu = 0.01;          // prox, pfedme: weight of mu/2 |w - theta|^2
  double lambda = 1;         // ditto: weight of lambda/2 |v - w|^2, w the received model
  double mixture = 0.5;      // apfl: share of the own model in the mixture, at the start
  bool adapt = true;         // apfl: the share is learned
  UpdateVariant variant = UpdateVariant::kPaper;  // apfl
  int64_t inner = 5;                              // pfedme: steps of the own model a mini-batch
  double inner_lr = 0;                            // pfedme, per-fedavg: size of these steps; 0: lr
  double global_momentum = 0;  // fedsam: share of the server's last direction in a step
  double distillation = 1;     // fedntd: beta, weight of the distillation
  double temperature = 1;      // fedntd: tau of its softmax
  SecondOrderOptions second_order;
};

// All of a job's section client.
struct ClientOptions : LocalWork,
                       StepOptions,
                       UpdateOptions,
                       LossOptions,
                       PartOptions,
                       LoweringOptions {
  AugmentationOptions augmentation;  // of images, in training
  PoisonOptions poison;              // set by attack.kind
  double worker_momentum = 0;        // of the messages, in [0, 1)
  int64_t seed = 0;                  // of what clients draw: batches, dropout; 0: run.seed
  int64_t state_memory = 1024;       // MiB a rank for client states; the rest in a mapped file
  // Set by privacy.unit = sample: what makes the steps private; null: they are as they are.
  std::shared_ptr<const PrivateSteps> private_steps = nullptr;
};

// The steps of an inner problem: those of the options, of size inner_lr where that is given.
StepOptions inner_steps(const ClientOptions& options);

}  // namespace hanse
