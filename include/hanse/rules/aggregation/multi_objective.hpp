// Directions that lower every participant's loss, as in optimization with many objectives:
// FedMGDA+, FedLF.
#pragma once

#include <memory>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// FedMGDA+ (Hu et al. 2022, algorithm 1): with updates of unit length n_i = u_i / |u_i|,
//   theta <- theta + sum lambda_i n_i, lambda = argmin |sum lambda_i n_i|^2 over the simplex with
//   |lambda - centre|_inf <= epsilon,
// so that one far update cannot outvote the others, and server.lr is the longest step. `centre` is
// the participants' weights: 1/N each (as in the AAggFF authors' runs) or their samples, times the
// draw's, of sum 1. epsilon = 0: fedavg of unit updates. epsilon = 1:
// the shortest vector of the hull, which lowers every participant's loss to first order; below,
// that is not promised. Mix.response is lambda. Participants whose update is zero are dropped, and
// parallel updates, or more of them than parameters, get a ridge (min_norm).
// REQUIRES: epsilon >= 0. Cost a round: O(K^3) beside the Gram matrix.
std::unique_ptr<Aggregator> make_fedmgda(double epsilon, ClientWeights weights);

// FedLF (Pan et al. 2024, algorithm 1): layer by layer, the direction of the shortest vector in the
// hull of the participants' updates and that of a fairness objective P = -cos(1, F) (eqs. 4-8).
// P's gradient is sum h_i g_i with h_i = (F_i sum F - |F|^2) / (sqrt(m) |F|^3) (eq. 5), so each
// layer's (m+1) x (m+1) inner products follow from its m x m Gram matrix. A layer in which the
// shortest vector is zero is joined to the next one, the last to the one before (lines 9-12). The
// whole is scaled to the length of the plain mean of the updates (line 15). Either the step is
// zero, or it lowers every participant's loss, and P, to first order. A layer is what
// AggregatorNeeds.layers says: weight and bias together, as in the paper's tables. Neither the
// clients' sizes nor the draw's weights enter.
// reference, as the authors' code does it: in each layer all vectors are first scaled to the
// layer's mean length, P's after it is summed from the scaled ones, and no layers are joined. Where
// the paper is silent: equal losses, or one participant: P has no gradient, and no vector.
// Participants whose whole update is zero are dropped from the hull; in the reference form also in
// the layers where it is zero.
// Known weakness: sum h_i <= 0, so where updates are parallel and losses differ P stands against
// all of them, and there is no step. The paper has it so: such a point is Pareto stationary.
//
// Absent clients (Sec. 3.3; FedLfForm.window): with M the clients that took part in earlier rounds
// and m the participants, those of them that last took part in the rounds t - M/m ... t - 1 and are
// absent now enter each hull with their last updates; they do not enter the mean length of a layer,
// P, or the length of the step. All vectors of a layer are then scaled to the layer's mean length
// in the paper's form, too, for old updates may be far longer than those of the day: P's gradient
// as it is, in the reference form summed from the scaled updates. Joined layers are scaled anew.
// State: the last round of each client; the sink keeps the updates.
//
// Cost a round: O(L (m + a)^3) beside the L Gram matrices, a the absent ones.
struct FedLfForm {
  bool reference = false;
  bool window = false;
};
std::unique_ptr<Aggregator> make_fedlf(const FedLfForm& form);

}  // namespace hanse
