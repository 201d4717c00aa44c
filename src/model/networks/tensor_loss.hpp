// The losses of loss.hpp as operations on tensors: on any device, for autograd of any order.
#pragma once

#include <ATen/core/Tensor.h>

#include "loss.hpp"

namespace hanse {

// Targets are [...] (labels as int32), or [..., values] where a label has several; logits z are
// [..., outputs], and [..., positions, outputs] where each position has a class.

// The losses: one a sample, [samples] in their order, with at::Reduction::None; their mean with
// at::Reduction::Mean.
at::Tensor tensor_losses(const Loss& loss, const at::Tensor& z, const at::Tensor& targets,
                         int64_t reduction);

// Like the targets, bool: which values are right. Of targets none is.
at::Tensor guessed_right(const Loss& loss, const at::Tensor& z, const at::Tensor& targets);
// [...]: what Loss::evaluate() counts as correct, of sequences a share in float64.
at::Tensor shares_right(const Loss& loss, const at::Tensor& z, const at::Tensor& targets);

// [...]: what Model::evaluate() calls the scores.
at::Tensor class_one_scores(const at::Tensor& z);
// Like the labels, int32: the ranks of SampleResults.
at::Tensor ranks_of_labels(const Loss& loss, const at::Tensor& z, const at::Tensor& targets);
// Like the labels, int32: the classes of SampleResults.
at::Tensor classes_taken(const Loss& loss, const at::Tensor& z, const at::Tensor& targets);

}  // namespace hanse
