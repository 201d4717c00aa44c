// Updates that use the Hessians of the clients' losses. f_i is the mean loss of client i on all of
// its training samples plus client.weight-decay / 2 |x|^2.
#pragma once

#include <memory>

#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// FedNew (Elgabli et al. 2022): the Newton direction y of the clients' mean is split among them by
// one pass of ADMM a round. With g_i, H_i at the received x, and y the mean of the last y_i,
//   lambda_i <- lambda_i + rho (y_i - y)
//   y_i <- (H_i + (alpha + rho) I)^-1 (g_i - lambda_i + rho y),  x <- x - sum_i w_i y_i,
// where w_i, the clients' weights in the objective, are by samples or equal. Neither g_i nor H_i is
// sent. The system is solved by conjugate gradients on Hessian-vector products; they start at the
// last y_i and stop where they meet negative curvature. At the end lambda_i is the gradient of f_i.
// Everyone takes part in every round: else the lambda_i would not sum to 0.
// Known weakness: alpha and rho are in the units of the Hessian and have to be chosen; in the first
// round y_i is close to a Newton step of the client's own.
// State: lambda_i and y_i. Cost: a gradient and `iterations` Hessian-vector products at most, twice
// SGD's bytes on the network. Memory: the client's samples and seven rows.
// Throws InvalidArgument when the model has no Hessian-vector products.
std::unique_ptr<LocalUpdate> make_fednew(const ClientOptions& options, const Federation& federation,
                                         Model& model);

// The most parameters that fednl takes: its state grows by their square.
inline constexpr int64_t kMostNewtonParameters = 2000;

// FedNL's client (Safaryan et al. 2022, Algorithm 1): it learns the Hessian at the moving model
// from compressed corrections. At the received x
//   D = hess f_i(x) - H_i,  l_i = |D|_F,  S_i = C(D),  H_i <- H_i + hessian_rate S_i;
// sent are g_i (the row returns as -g_i), and as control_change what H_i moved by and l_i. With
// hessian_start = "hessian" H_i is the Hessian at the first model, sent whole in the first round,
// else zero. The server's part is make_newton_optimizer().
// On the wire are the ranks' sums over clients, dense: P (P + 1)/2 + 1 numbers, whatever the
// compressor leaves of one client's.
// State: H_i and a flag. Cost: P Hessian-vector products and the compressor's. Memory: P^2 float64.
// Throws InvalidArgument for more than kMostNewtonParameters parameters, and as make_fednew().
std::unique_ptr<LocalUpdate> make_fednl(const ClientOptions& options, const Federation& federation,
                                        Model& model);

}  // namespace hanse
