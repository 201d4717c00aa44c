// Losses that keep a model near the one that its client received, or near what clients share.
#pragma once

#include "hanse/model/model.hpp"

namespace hanse {

// Trains the model for the cross-entropy with not-true distillation from the received model
// (FedNTD, Lee et al. 2022): with q and p the softmax of the model's and of the received model's
// logits over `temperature` tau, each over the classes other than the label y,
//   L = L_CE + beta tau^2 KL(p || q),  dL/dz_c = dL_CE/dz_c + beta tau (q_c - p_c), c != y,
// as means over the batch, of a sequence over its labelled positions. Otherwise as train_for().
// Cost of a step: a forward pass of the received model. Throws InvalidArgument for another loss
// than cross-entropy, and for fewer than three classes.
void distill_not_true(Model& model, double beta, double temperature);

// Throws InvalidArgument, which names model.kind, for a network without Model::represent().
void require_representation(const Model& model);

// Trains the model for its loss and the contrast of models (MOON, Li et al. 2021, eq. 3 and 4):
// with z, z_glob and z_prev the representations of a sample by the row, by the received one and by
// the client's last one (without a last one: by the received one), sim the cosine and tau the
// temperature
//   L = L_sup + mu l_con,  l_con = -log(e^(sim(z, z_glob)/tau) / (e^(sim(z, z_glob)/tau) +
//                                                                e^(sim(z, z_prev)/tau))),
// as means over the batch, of a sequence over its positions. z is what the last layer reads, with
// the dropout of the step; the others have none. The cosine with the vector 0 is 0 and does not
// move. Otherwise as train_for(). Cost of a step: a forward pass of either row. Throws
// InvalidArgument as require_representation().
void contrast_with_models(Model& model, double mu, double temperature);

// Between what of a batch and the means of classes the distance is.
enum class MeanDistance {
  kOfMeans,    // sum over the classes of |mean of the batch's representations - class mean|
  kOfSamples,  // mean over samples and values of (representation - class mean)^2
};

// Trains the model for its loss and a distance of representations h to the means of their classes
// (FedProto, Tan et al. 2022, eq. 7 and 8), which Received::class_means has:
//   L = L_S + lambda L_R,  L_R = sum_j |C^(j) - Cbar^(j)|_2,  C^(j) the mean of h over class j in
// the batch (eq. 3); or the distance of the authors' code. Classes without a mean do not pull, nor
// do positions without a label. Otherwise as train_for(). Cost of a step: a pass over the
// representations. REQUIRES: labels that are classes. Throws InvalidArgument as
// require_representation().
void pull_to_class_means(Model& model, double lambda, MeanDistance distance);

}  // namespace hanse
