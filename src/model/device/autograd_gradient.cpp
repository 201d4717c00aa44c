#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "device/step_gradient.hpp"
#include "networks/tensor_loss.hpp"

namespace hanse {

namespace {

class AutogradGradient final : public StepGradient {
 public:
  AutogradGradient(StepParts parts, CohortForward& network)
      : parts_(std::move(parts)),
        network_(network),
        within_(at::arange(parts_.batch, parts_.table.counts().options())) {}

  at::Tensor find(int64_t clients, const at::Tensor& totals) override {
    const at::Tensor order = parts_.table.places().narrow(0, 0, clients * batch());
    const at::Tensor weights = weights_of(parts_.table.counts().narrow(0, 0, clients).unsqueeze(1));
    const at::Tensor input = parts_.features.index_select(0, order).view({clients, batch(), -1});
    const at::Tensor targets = parts_.targets.index_select(0, order).view({clients, batch()});
    std::vector<at::Tensor> leaves, masks;  // of these clients
    for (const at::Tensor& row : parts_.rows) {
      leaves.push_back(row.narrow(0, 0, clients).detach().requires_grad_());
    }
    for (const at::Tensor& mask : parts_.noise.masks()) {
      masks.push_back(mask.narrow(0, 0, clients));
    }
    const at::Tensor logits = network_.logits(leaves, input, masks);
    const at::Tensor losses =
        tensor_losses(*parts_.loss, logits, targets, at::Reduction::None).view({clients, batch()});
    // A client's mean has no part in another one's: the sum's gradient holds each of theirs.
    const auto gradients =
        torch::autograd::grad({losses}, leaves, {weights}, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      at::Tensor own = parts_.gradients[i].narrow(0, 0, clients);
      gradients[i].defined() ? own.copy_(gradients[i]) : own.zero_();
    }
    // Only losses that count: 0 NaN is NaN, and places behind a client's samples must add nothing.
    const at::Tensor used = at::where(weights > 0, losses, at::zeros({}, losses.options()));
    const at::Tensor means = at::sum(used.to(at::kDouble) * weights, {1});
    if (totals.defined()) totals.narrow(0, 0, clients).add_(means);
    return means;
  }

 private:
  int64_t batch() const { return parts_.batch; }

  // [C, B] what each sample counts in its client's loss, from the clients' counts [C, 1].
  at::Tensor weights_of(const at::Tensor& counts) const {
    return at::lt(within_, counts).to(at::kFloat) / counts.clamp_min(1).to(at::kFloat);
  }

  StepParts parts_;
  CohortForward& network_;
  at::Tensor within_;  // [B] 0, 1, ...
};

}  // namespace

std::vector<at::Tensor> tensors_of(const at::Tensor& rows, const ParameterLayout& layout) {
  std::vector<at::Tensor> tensors;
  for (const ParameterSlot& slot : layout.slots()) {
    std::vector<int64_t> shape = {rows.size(0)};
    shape.insert(shape.end(), slot.shape.begin(), slot.shape.end());
    tensors.push_back(rows.narrow(1, slot.offset, slot.size).view(shape).detach());
  }
  return tensors;
}

std::unique_ptr<StepGradient> make_autograd_gradient(StepParts parts, CohortForward& network) {
  return std::make_unique<AutogradGradient>(std::move(parts), network);
}

}  // namespace hanse
