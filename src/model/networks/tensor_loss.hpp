// The losses of loss.hpp as operations on tensors: on any device, for autograd of any order.
#pragma once

#include <ATen/core/Tensor.h>

#include "loss.hpp"

namespace hanse {

// The losses for logits z [..., outputs] and targets [...] (labels as int32): one a sample,
// [samples] in their order, with at::Reduction::None; their mean with at::Reduction::Mean.
at::Tensor tensor_losses(const Loss& loss, const at::Tensor& z, const at::Tensor& targets,
                         int64_t reduction);

// [...] bool: what Loss::evaluate() counts as correct.
at::Tensor guessed_right(const Loss& loss, const at::Tensor& z, const at::Tensor& targets);

// [...]: what Model::evaluate() calls the scores.
at::Tensor class_one_scores(const at::Tensor& z);
// [...] int32: the ranks of SampleResults.
at::Tensor ranks_of_labels(const Loss& loss, const at::Tensor& z, const at::Tensor& targets);
// [...] int32: the classes of SampleResults.
at::Tensor classes_taken(const Loss& loss, const at::Tensor& z, const at::Tensor& targets);

}  // namespace hanse
