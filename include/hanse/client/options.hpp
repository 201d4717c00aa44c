// Options of what a participant does.
#pragma once

#include <cstdint>
#include <string>

namespace hanse {

// PropFair (Zhang et al. 2022): clients minimise -log(M - F) of their mini-batch loss F, whose
// gradient is that of F over M - F. Below kLeastRoom the logarithm goes on as its tangent.
struct PropfairOptions {
  static constexpr double kLeastRoom = 0.2;
  double base = 0;         // M; 0: off
  bool reference = false;  // AAggFF's authors: F / M in place of the tangent
};

// Derivative of the client's objective by its loss F; 1 when off.
double propfair_slope(const PropfairOptions& options, double loss);

// Of the updates in second_order.hpp.
struct SecondOrderOptions {
  double alpha = 0.05;                    // fednew: damping of the Newton direction
  double rho = 0.1;                       // fednew: penalty on y_i - y
  double tolerance = 1e-5;                // fednew: of the residual, relative
  int64_t iterations = 100;               // fednew: most Hessian-vector products a round
  std::string compressor = "rank";        // fednl: rank | top
  int64_t rank = 1;                       // of compressor = rank
  int64_t top = 0;                        // of compressor = top; 0: 8 P
  double hessian_rate = 1;                // fednl: share of a correction that is applied
  std::string hessian_start = "hessian";  // fednl: hessian | zero
  std::string safeguard = "frobenius";    // fednl: frobenius | projection
  double least_eigenvalue = 1e-3;         // of safeguard = projection
};

// torch.optim's rules and its defaults: optimizer.hpp.
struct OptimizerOptions {
  std::string kind = "sgd";     // sgd | adam | adamw | adagrad | rmsprop
  std::string state = "fresh";  // fresh: moments start from zero in every round; kept: go on
  bool nesterov = false;        // sgd
  double beta1 = 0.9;           // adam, adamw: share of the first moment that stays
  double beta2 = 0.999;         // adam, adamw; rmsprop, 0.99: of the second moment
  double eps = 1e-8;            // added to the root of the second moment; adagrad: 1e-10
};

// How the step size moves: schedule.hpp.
struct ScheduleOptions {
  std::string kind = "step";    // constant | step | exponential | linear | cosine | one-cycle
  std::string over = "rounds";  // rounds | steps, those of a client's round
  int64_t length = 0;           // rounds until its end; 0: run.rounds of the first start
  double end = 0;               // linear, cosine: share of client.lr at the end
  int64_t warmup = 0;           // rounds or steps in front of it, in which the rate rises linearly
};

// What training makes of images: augmentation.hpp.
struct AugmentationOptions {
  int64_t crop = 0;    // pixels of the border in which an image may move
  double flip = 0;     // probability that left and right change places, [0, 1]
  int64_t cutout = 0;  // side of a square of zeros; 0: none
  double mixup = 0;    // a of Beta(a, a), the share of a sample in its mixture; 0: none
};

// The key of the first that is asked for; empty: none.
std::string augmentation_key(const AugmentationOptions& options);

struct ClientOptions {
  // update: sgd | prox | scaffold | ditto | fednova | feddyn | fednew | fednl
  std::string kind = "sgd";
  int64_t epochs = 1;             // passes over the client's samples; ignored when steps > 0
  int64_t steps = 0;              // mini-batch steps a round; 0: epochs
  int64_t batch = 20;             // samples a step; 0: all of the client's
  double stragglers = 0;          // sgd, prox: share of participants that stop early
  bool drop_last = false;         // leave out a pass's last batch where it is smaller
  double lr = 0.1;                // step size; its largest, where the schedule moves it
  double lr_decay = 1;            // step, exponential: factor applied to lr ...
  int64_t lr_decay_every = 1;     // ... every so many rounds
  ScheduleOptions schedule;       // of lr
  OptimizerOptions optimizer;     // of sgd, prox and ditto
  double momentum = 0;            // heavy ball, from zero in every round unless moments are kept
  double weight_decay = 0;        // L2, or decoupled (adamw)
  int64_t accumulate = 1;         // mini-batches whose mean gradient makes one step
  double clip = 0;                // largest gradient norm; 0: off
  double mu = 0.01;               // prox: weight of mu/2 |w - theta|^2 (FedProx, Li et al. 2020)
  double lambda = 1;              // ditto: weight of lambda/2 |v - w|^2, w the received model
  std::string personal;           // names of tensors that stay with the client: personal.hpp
  std::string train;              // names of tensors that are trained: part_model.hpp; empty: all
  int64_t lora = 0;               // rank of adapters; 0: none
  std::string lora_layers = "*";  // names of the matrices that have one
  std::string objective;          // file of a loss of the user's own; empty: model.loss
  double label_smoothing = 0;     // share of a label that is spread over all classes, [0, 1)
  std::string class_weights = "none";  // none | client | all | a list: class_weights.hpp
  AugmentationOptions augmentation;    // of images, in training
  PropfairOptions propfair;            // set by aggregator.kind = propfair
  std::string rate = "l-bfgs";         // of DQN-Fed's clients: l-bfgs | gradient | loss
  double rate_power = 1;               // of client.rate = loss
  int64_t pairs = 10;                  // m of l-bfgs
  double rate_limit = 2;               // of l-bfgs and gradient: d <= rate_limit F; 0: no limit
  std::string gradient = "auto";       // what DQN-Fed's clients send: auto | last | mean | update
  SecondOrderOptions second_order;
  int64_t seed = 0;             // of what clients draw: batches, dropout; 0: run.seed
  bool pooled = false;          // on everybody's samples; set by run.protocol = centralized
  bool alone = false;           // all tensors stay; set by run.protocol = local
  int64_t state_memory = 1024;  // MiB a rank for client states; the rest in a mapped file
};

}  // namespace hanse
