#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "device/step_gradient.hpp"

namespace hanse {

namespace {

class AutogradGradient final : public StepGradient {
 public:
  AutogradGradient(StepParts parts, CohortForward& network)
      : parts_(std::move(parts)), network_(network) {}

  at::Tensor find(int64_t clients, const StepTotals& totals) override {
    const at::Tensor order = parts_.table.places().narrow(0, 0, clients * batch());
    const at::Tensor input = parts_.features.index_select(0, order).view({clients, batch(), -1});
    std::vector<at::Tensor> leaves, masks;  // of these clients
    for (const at::Tensor& row : parts_.rows) {
      leaves.push_back(row.narrow(0, 0, clients).detach().requires_grad_());
    }
    for (const at::Tensor& mask : parts_.noise.masks()) {
      masks.push_back(mask.narrow(0, 0, clients));
    }
    const at::Tensor logits = network_.logits(leaves, input, masks);
    const auto [delta, means] =
        parts_.step_loss.differentiate(logits, {0, clients, batch()}, totals);
    // A client's mean has no part in another one's: the sum's gradient holds each of theirs.
    const auto gradients = torch::autograd::grad({logits}, leaves, {delta}, /*retain_graph=*/false,
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      at::Tensor own = parts_.gradients[i].narrow(0, 0, clients);
      gradients[i].defined() ? own.copy_(gradients[i]) : own.zero_();
    }
    return means;
  }

 private:
  int64_t batch() const { return parts_.batch; }

  StepParts parts_;
  CohortForward& network_;
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
