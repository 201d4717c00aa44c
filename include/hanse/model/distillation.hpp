// Losses that keep a model near the one that its client received.
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

}  // namespace hanse
