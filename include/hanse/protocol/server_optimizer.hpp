// How the server steps along the mixed update.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/model/entry_step.hpp"
#include "hanse/protocol/server_options.hpp"

namespace hanse {

struct SecondOrderOptions;  // client/options.hpp
template <class Options>
struct KindRow;  // base/kind.hpp

class ServerOptimizer : public Stateful {
 public:
  // Gets, before step(), the weighted sum of the rows that the clients sent beside their updates
  // (control_change), when nothing returns to them.
  virtual void observe(std::span<const float> /*sum*/) {}
  // theta moves by the mixed update at rate `lr`; state lives across rounds. Both rows have all P
  // entries or, where clients send their updates alone, a part from `begin` on, each entry once a
  // round. Cost: one pass over the entries.
  virtual void step(std::span<float> theta, std::span<const float> update, double lr,
                    int64_t begin = 0) = 0;

  // If step() acts on each entry alone, the rule by which ranks may step for themselves; the caller
  // sets the round's rate. It comes with the rows that the rule keeps across rounds.
  virtual std::optional<EntryStep> by_entry() const { return std::nullopt; }
  virtual EntryStates entry_states() { return {}; }
};

// The server's learning rate of a round (from 1): lr * decay^floor((round - 1) / every).
double server_rate(const ServerOptions& options, int64_t round);

// sgd:      theta <- theta + lr u
// momentum: v <- beta v + u;  theta <- theta + lr v   (FedAvgM, Hsu et al. 2019, section 4.3)
// Adaptive (Reddi et al. 2021, algorithm 2), v starting at tau^2, without bias correction:
//   m <- beta m + (1 - beta) u;  theta <- theta + lr m / (sqrt(v) + tau)
//   adagrad: v <- v + u^2
//   adam:    v <- beta2 v + (1 - beta2) u^2
//   yogi:    v <- v - (1 - beta2) u^2 sign(v - u^2)
// Throws InvalidArgument for an unknown one.
std::unique_ptr<ServerOptimizer> make_server_optimizer(const ServerOptions& options,
                                                       int64_t n_params);
std::vector<KindRow<ServerOptions>> server_optimizer_kinds();

// Is a step lr times the mixed update, and nothing else?
bool takes_plain_steps(const ServerOptions& options);

// FedNL's server (Safaryan et al. 2022, Algorithm 1) for rows of n_params values. It receives the
// clients' mean Hessian correction S, packed (rules/newton/symmetric.hpp), and behind it their mean
// distance l; the update is -g. Its estimate H of the clients' mean Hessian is float64. By
// `options`:
//   projection, option 1: x <- x - lr [H]_mu^-1 g (eigenvalues below mu = least_eigenvalue raised)
//   frobenius, option 2:  x <- x - lr (H + l I)^-1 g
//   H <- H + S, behind the step; before it if S is the first H, with hessian_start = "hessian".
// step() throws InvalidArgument when H + l I is not positive definite, which convex losses rule
// out: l bounds how far H is from the Hessian.
// Cost: option 1 10 P^3 flops, option 2 P^3/3. Memory: P^2 + P (P + 1)/2 float64.
std::unique_ptr<ServerOptimizer> make_newton_optimizer(const SecondOrderOptions& options,
                                                       int64_t n_params);

// The server of FedDyn (Acar et al. 2021, Algorithm 1).
// u is the mean of the participants' updates x_i - theta, s their share of all clients, which
// observe() gets: h <- h - s u and theta <- theta + lr u - h. The paper's h is ours / alpha: alpha
// has no part in the server's step. State: a row.
std::unique_ptr<ServerOptimizer> make_dyn_optimizer(int64_t n_params);

}  // namespace hanse
