#include "networks/tensor_loss.hpp"

#include <cmath>

#include <ATen/ATen.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

struct TensorLoss {
  at::Tensor (*losses)(const at::Tensor& z, const at::Tensor& targets, int64_t reduction);
  at::Tensor (*guessed_right)(const at::Tensor& z, const at::Tensor& targets);
};

const TensorLoss kLosses[] = {
    // by LossRule
    {[](const at::Tensor& z, const at::Tensor& targets, int64_t reduction) {
       return at::cross_entropy_loss(z.flatten(0, -2), targets.flatten().to(at::kLong), {},
                                     reduction, /*ignore_index=*/-1);
     },
     [](const at::Tensor& z, const at::Tensor& targets) {
       return at::argmax(z, -1).to(at::kInt).eq(targets);
     }},
    {[](const at::Tensor& z, const at::Tensor& targets, int64_t reduction) {
       const at::Tensor ones = targets.flatten().eq(1).to(at::kFloat);
       return at::binary_cross_entropy_with_logits(z.flatten(), ones, {}, {}, reduction);
     },
     [](const at::Tensor& z, const at::Tensor& targets) {
       if (targets.is_floating_point()) return at::zeros_like(targets, at::kBool);
       return z.squeeze(-1).gt(0).to(at::kInt).eq(targets);
     }},
    {[](const at::Tensor& z, const at::Tensor& targets, int64_t reduction) {
       return at::mse_loss(z.flatten(), targets.flatten(), reduction) / 2;
     },
     [](const at::Tensor&, const at::Tensor& targets) {
       return at::zeros_like(targets, at::kBool);
     }},
};

const TensorLoss& on_tensors(const Loss& loss) {
  if (const auto rule = loss.rule()) return kLosses[static_cast<std::size_t>(*rule)];
  throw InvalidArgument("no tensors of the loss " + loss.name(), "model.loss",
                        "it trains on CPUs alone, without Hessians of networks");
}

// The values of a sample's label.
int64_t values_of(const Loss& loss) {
  return loss.rule() == LossRule::kCrossEntropy ? loss.positions() : loss.outputs();
}

// -1 where there is no label.
at::Tensor only_labelled(const at::Tensor& found, const at::Tensor& targets) {
  return at::where(targets.ge(0), found, at::full({}, -1, found.options()));
}

// [samples] how many positions have a label.
at::Tensor labelled(const Loss& loss, const at::Tensor& targets) {
  return targets.reshape({-1, loss.positions()}).ge(0).sum({1});
}

}  // namespace

at::Tensor tensor_losses(const Loss& loss, const at::Tensor& z, const at::Tensor& targets,
                         int64_t reduction) {
  const TensorLoss& own = on_tensors(loss);
  const int64_t values = values_of(loss);
  if (values == 1) return own.losses(z, targets, reduction);
  const at::Tensor each = own.losses(z, targets, at::Reduction::None).view({-1, values});
  const at::Tensor losses =
      loss.positions() > 1 ? each.sum({1}) / labelled(loss, targets) : each.mean({1});
  return reduction == at::Reduction::Mean ? losses.mean() : losses;
}

at::Tensor guessed_right(const Loss& loss, const at::Tensor& z, const at::Tensor& targets) {
  return on_tensors(loss).guessed_right(z, targets);
}

at::Tensor shares_right(const Loss& loss, const at::Tensor& z, const at::Tensor& targets) {
  const at::Tensor right = guessed_right(loss, z, targets);
  if (loss.positions() > 1) {
    const at::Tensor shares = right.sum({-1}).to(at::kDouble).flatten() / labelled(loss, targets);
    return shares.view(right.sizes().slice(0, right.dim() - 1));
  }
  return values_of(loss) > 1 ? right.select(-1, 0) : right;
}

at::Tensor class_one_scores(const at::Tensor& z) {
  return z.size(-1) == 1 ? z.squeeze(-1) : z.select(-1, 1) - z.select(-1, 0);
}

at::Tensor ranks_of_labels(const Loss& loss, const at::Tensor& z, const at::Tensor& targets) {
  if (z.size(-1) == 1) return guessed_right(loss, z, targets).logical_not().to(at::kInt);
  const at::Tensor label = targets.to(at::kLong).clamp_min(0).unsqueeze(-1);
  const at::Tensor own = z.gather(-1, label);
  const at::Tensor place = at::arange(z.size(-1), label.options());
  const at::Tensor before = place.lt(label).logical_and(z.lt(own).logical_not());
  const at::Tensor behind = place.gt(label).logical_and(z.le(own).logical_not());
  return only_labelled(before.logical_or(behind).sum(-1), targets).to(at::kInt);
}

at::Tensor classes_taken(const Loss& loss, const at::Tensor& z, const at::Tensor& targets) {
  const at::Tensor label = targets.to(at::kLong);
  const at::Tensor right = ranks_of_labels(loss, z, targets).eq(0);
  if (z.size(-1) == 1) return at::where(right, label, 1 - label).to(at::kInt);
  const at::Tensor place = at::arange(z.size(-1), label.options());
  const at::Tensor others = z.nan_to_num(INFINITY, INFINITY, -INFINITY);
  const at::Tensor own = place.eq(label.unsqueeze(-1));
  const at::Tensor largest = others.masked_fill(own, -INFINITY).amax(-1, true);
  // The first of the largest, where NaN counts as infinity.
  const at::Tensor candidates = others.eq(largest).logical_and(own.logical_not());
  const at::Tensor other = at::where(candidates, place, z.size(-1)).amin(-1);
  return only_labelled(at::where(right, label, other), targets).to(at::kInt);
}

}  // namespace hanse
