// The losses of loss.hpp as operations on tensors, on any device and for autograd of any order.
#pragma once

#include <ATen/ATen.h>

#include "hanse/model/model.hpp"

namespace hanse {

// Of logits z [..., outputs] and targets [...] (labels as int32): a loss for each sample, [samples]
// in their order, with at::Reduction::None; their mean with at::Reduction::Mean.
//   cross-entropy ln(sum_c e^{z_c}) - z_y, binary-logistic ln(1 + e^z) - y z, squared error
//   (z - y)^2 / 2
at::Tensor tensor_loss(LossKind kind, const at::Tensor& z, const at::Tensor& targets,
                       int64_t reduction);

// [rows] on the batch's memory: its targets, or its labels.
at::Tensor targets_of(LossKind kind, const Batch& batch);

// [...] bool: is the largest logit, the first of equals, the label's (binary-logistic: class 1 when
// z > 0)? REQUIRES: a loss with classes.
at::Tensor guessed_right(LossKind kind, const at::Tensor& z, const at::Tensor& labels);

// [...] what Model::evaluate() calls the scores.
at::Tensor class_one_scores(const at::Tensor& z);

}  // namespace hanse
