// How fast the gradient of each client's objective can change.
#pragma once

#include <vector>

#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// L_m of every client, [clients]: the gradient of its mean training loss is L_m-Lipschitz. For a
// linear model this is
//   L_m = h lambda_max( 1/n_m sum_i x_i x_i^T ),  x_i with a 1 appended when the model has a bias,
// where h bounds the second derivative of the loss by its outputs: 1 (squared-error), 1/4
// (binary-logistic), 1/2 (cross-entropy: the bound of Boehning 1992, "Multinomial logistic
// regression algorithm"). client.weight-decay would add itself to every L_m and is not in it.
// Clients drawn with p_m ~ lambda_m L_m are the fixed importance sampling of Zhao and Zhang (2015)
// and Needell, Srebro and Ward (2016). Known weakness: L_m bounds the gradient everywhere and knows
// nothing of where training is. 0 for a client whose features are all 0, without a bias.
//
// Power iteration in float64 from one fixed start. Relative error about 1e-9; where the largest
// eigenvalues lie within 1% of each other, the value may be low by up to about 0.1%.
// Throws InvalidArgument when model.kind is not linear.
// REQUIRES: options that make_model takes for these data.
// Cost: 4 n d flops an iteration and client, 1000 iterations at most: 0.4 s for all of
// Fashion-MNIST. Memory: the samples of one client at a time in float32.
std::vector<double> smoothness_constants(const Federation& federation, const ModelOptions& options);

}  // namespace hanse
