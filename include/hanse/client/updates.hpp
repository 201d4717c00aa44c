// The updates of client.update that gradient steps make, and DQN-Fed's.
#pragma once

#include <memory>
#include <span>

#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// Mini-batch SGD, or the steps of another options.optimizer (kinds.hpp), of sizes by
// options.schedule. Every epoch visits the client's samples in a fresh order (stream of seed,
// kShuffle, round, client); the last batch of an epoch may be smaller, or is left out then
// (drop_last). With accumulate = n each n mini-batches in a row, and what is left of them at the
// end of the round, make one step by the mean gradient of their samples. `model` and `federation`
// must outlive the object. Memory: a row a moment, a gradient row with clipping, two with
// accumulation, and one batch. State, with optimizer.state = kept: the moments and their age.
std::unique_ptr<LocalUpdate> make_sgd(const ClientOptions& options, const Federation& federation,
                                      Model& model);
// SGD with options.mu/2 |w - theta|^2 in the loss (FedProx, Li et al. 2020). Memory: a row.
std::unique_ptr<LocalUpdate> make_prox(const ClientOptions& options, const Federation& federation,
                                       Model& model);
// SGD whose updates count by their effective steps (FedNova, Wang et al. 2020). REQUIRES:
// client.optimizer = sgd with fresh moments.
std::unique_ptr<LocalUpdate> make_fednova(const ClientOptions& options,
                                          const Federation& federation, Model& model);

// FedDyn (Acar et al. 2021): a regulariser that moves with the client. From the received theta, by
// the steps and mini-batches of SGD, with the client's state h_i
//   x <- x - lr (g(x) - h_i + alpha (x - theta)),  then  h_i <- h_i - alpha (x - theta),
// alpha = options.second_order.alpha. The server's part is make_dyn_optimizer(), which the control
// variate of one entry, always 1, tells the participants' share of all clients.
// REQUIRES: plain steps (beyond_plain_steps). State: a row. Memory: two rows and one batch.
std::unique_ptr<LocalUpdate> make_feddyn(const ClientOptions& options, const Federation& federation,
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
// and a flag. Cost: twice SGD's, and two rows. Throws InvalidArgument where clients keep moments.
std::unique_ptr<LocalUpdate> make_ditto(const ClientOptions& options, const Federation& federation,
                                        Model& model);

// APFL (Deng et al. 2020, Algorithm 1). The row w is trained as by make_sgd, bit for bit. Beside it
// the client moves a model v of its own, which never leaves it, by as many steps on the same
// batches and dropout masks; with the mixture v' = a v + (1 - a) w before either step
//   v <- v - lr (a grad F(v') + weight_decay v).
// At the round's first batch, before the steps, a learns from its own gradient if `adapt`:
//   a <- clip(a - lr <v - w, grad F(v')>, 0, 1);  variant reference: <..> + 0.02 a,
// as the authors' code (FedTorch) has it beside the paper. v starts at the first model that the
// client receives, a at `mixture`. The own model is the mixture of v and the model of the day.
// REQUIRES, as the next two: plain steps (beyond_plain_steps), no PropFair. State: v, a and a flag.
// Cost: two gradients a batch, and one more a round if a learns. Memory: two rows and one batch.
std::unique_ptr<LocalUpdate> make_apfl(const ClientOptions& options, const Federation& federation,
                                       Model& model);

// pFedMe (T. Dinh et al. 2020, Algorithm 1): gradient steps on the Moreau envelope of each client's
// loss. The client's own model x starts at the received theta in each round; a mini-batch makes
// K = `inner` steps of it, then one of the row w:
//   x <- x - inner_lr (grad F(x) + mu (x - w)),  then  w <- w - lr mu (w - x).
// The paper's beta is the server's step size. Weight decay is part of F; buffers are x's. The own
// model is the last x. Known weakness: lr mu must stay below 2, inner_lr (L + mu) too, with L the
// curvature of F. State: x and a flag. Cost: K gradients a batch. Memory: a row and one batch.
std::unique_ptr<LocalUpdate> make_pfedme(const ClientOptions& options, const Federation& federation,
                                         Model& model);

// Per-FedAvg (Fallah et al. 2020, Algorithm 1) without the Hessian, as its FO variant: of every two
// mini-batches, 1 and 2,
//   w' = w - inner_lr grad F(w; 1),  then  w <- w - lr grad F(w'; 2).
// A mini-batch that is left alone at the end of the round stands for both. The own model is the
// received one: it is tuned by steps of inner_lr before it is evaluated. No state. Memory: two rows
// and one batch.
std::unique_ptr<LocalUpdate> make_per_fedavg(const ClientOptions& options,
                                             const Federation& federation, Model& model);

// FedSAM (Qu et al. 2022): SGD along the gradient at the worst point nearby, which flat minima
// lower. With rho the radius, second_order.rho, and g = grad F(w) of a mini-batch
//   w~ = w + rho g / |g|,  w <- w - lr grad F(w~)  of the same batch and dropout masks.
// With global_momentum m > 0 (MoFedSAM; with rho = 0 FedCM, Xu et al. 2021)
//   w <- w - lr ((1 - m) grad F(w~) + m D),  D = mean over the last round's clients of
//   (theta - theta_i) / (K lr), the control variate; 0 in the first round. The papers' beta and
// alpha are 1 - m. K is effective_steps(). Clipping, momentum and the options' optimizer act on the
// gradient that stands for grad F. The loss is F(w). m > 0 REQUIRES: plain steps but for momentum,
// which clients do not keep. rho = m = 0 is SGD, bit for bit. Cost: two gradients a batch, one with
// rho = 0; with m > 0 twice SGD's bytes on the network. Memory: two rows and one batch.
std::unique_ptr<LocalUpdate> make_fedsam(const ClientOptions& options, const Federation& federation,
                                         Model& model);

// SGD on a model that distill_not_true() trains (FedNTD, Lee et al. 2022), one client after the
// other; with distillation = 0 SGD, bit for bit.
std::unique_ptr<LocalUpdate> make_fedntd(const ClientOptions& options, const Federation& federation,
                                         Model& model);

// MOON (Li et al. 2021, Algorithm 1): SGD on a model that contrast_with_models() trains, which the
// update tells the model that the client's last training left. In its first participation that is
// the received one, so that the contrast does not move it; the authors' code has a model of random
// values where the client comes late. mu = 0: SGD, bit for bit. Clients train one after the other.
// State: the last model and a flag. Memory: two rows.
std::unique_ptr<LocalUpdate> make_moon(const ClientOptions& options, const Federation& federation,
                                       Model& model);

// FedProto (Tan et al. 2022, Algorithm 1): SGD on a model that pull_to_class_means() trains. Behind
// the steps the client sends, in evaluation mode, the mean C_i^(j) of the representations of its
// training samples of each class j (eq. 3), and the control variate holds
//   Cbar^(j) = sum_i n_i,j C_i^(j) / sum_i n_i,j  over the round's clients that have class j
// (eq. 6 without its factor 1/|N_j|, by which means would shrink: its weights add up to 1 alone),
// with n_i,j by client i's importance; a class that nobody sends keeps its mean. Variant reference:
// the clients' means by their importance alone. The model travels beside them, unless
// make_personal() keeps all of it. lambda = 0: the model is SGD's, bit for bit. Clients train one
// after the other. No state. Memory: classes (width + 1) doubles and a batch. Cost beyond SGD's: a
// pass of the training samples a round. Throws InvalidArgument for data without classes, and as
// require_representation().
std::unique_ptr<LocalUpdate> make_fedproto(const ClientOptions& options,
                                           const Federation& federation, Model& model);

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

}  // namespace hanse
