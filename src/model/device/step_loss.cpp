#include "device/step_loss.hpp"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "device/upload.hpp"
#include "networks/tensor_loss.hpp"

namespace hanse {

namespace {

// The losses of samples [clients, samples], and what each counts in its client's.
struct LossTerm {
  at::Tensor losses, weights;

  at::Tensor used() const {
    // Only losses that count: 0 NaN is NaN, and places behind a client's samples must add nothing.
    return at::where(weights > 0, losses, at::zeros({}, losses.options())).to(at::kDouble);
  }
};

class TensorStepLoss : public StepLoss {
 public:
  explicit TensorStepLoss(LossParts parts)
      : parts_(std::move(parts)),
        within_(at::arange(parts_.batch, parts_.table.counts().options())) {}

  void start(const at::Tensor&, std::span<const float> weights) override {
    put_weights(parts_, weights);
  }

  Found differentiate(const at::Tensor& logits, const ClientBatches& of,
                      const StepTotals& totals) override {
    const at::AutoGradMode training(true);
    const at::Tensor z = logits.detach().requires_grad_();
    const at::Tensor order = parts_.table.places()
                                 .view({-1, parts_.batch})
                                 .narrow(0, of.first, of.clients)
                                 .narrow(1, 0, of.samples)
                                 .reshape({-1});
    const at::Tensor counts =
        parts_.table.counts().narrow(0, of.first, of.clients).unsqueeze(1);  // [clients, 1]
    const auto term_of = [&](const at::Tensor& targets) {
      auto sizes = targets.sizes().vec();
      sizes.erase(sizes.begin());
      sizes.insert(sizes.begin(), {of.clients, of.samples});
      return term(z, targets.index_select(0, order).view(sizes), counts, of);
    };
    LossTerm own = term_of(parts_.samples.targets);
    std::vector<at::Tensor> losses{own.losses}, by{own.weights};
    at::Tensor means = at::sum(own.used() * own.weights, {1}), each = own.used();
    if (parts_.samples.others.defined()) {
      const at::Tensor share =
          parts_.samples.shares.index_select(0, order).view({of.clients, of.samples});
      const LossTerm other = term_of(parts_.samples.others);
      by = {own.weights * share, other.weights * (1 - share)};
      losses.push_back(other.losses);
      means = at::sum(own.used() * by[0] + other.used() * by[1], {1});
      each = own.used() * share + other.used() * (1 - share);
    }
    const auto deltas = torch::autograd::grad(losses, {z}, by);
    const auto add = [&](at::Tensor total, const at::Tensor& found) {
      if (total.defined()) total.narrow(0, of.first, of.clients).add_(found.detach());
    };
    add(totals.losses, means);
    if (totals.squares.defined()) add(totals.squares, at::sum(each.square(), {1}));
    return {deltas[0], means.detach()};
  }

 protected:
  // From counts [clients, 1] and targets [clients, samples, ...].
  virtual LossTerm term(const at::Tensor& z, const at::Tensor& targets, const at::Tensor& counts,
                        const ClientBatches& of) const {
    return {
        tensor_losses(*parts_.loss, z, targets, at::Reduction::None).view({of.clients, of.samples}),
        counted(counts, of) / counts.clamp_min(1).to(at::kFloat)};
  }

  // [clients, samples] 1 where the client has the sample.
  at::Tensor counted(const at::Tensor& counts, const ClientBatches& of) const {
    return at::lt(within_.narrow(0, 0, of.samples), counts).to(at::kFloat);
  }

  const LossParts parts_;

 private:
  at::Tensor within_;  // [B] 0, 1, ...
};

// The formula is that of smooth_labels(): with the numbers
//   q_c = (1 - s) w_y [c = y] + s/C w_c,  0 without a label,
// a sample's loss is -sum_c q_c log softmax(z)_c, and a batch's their sum over sum_i w_{y_i}.
class SmoothedStepLoss final : public TensorStepLoss {
 public:
  SmoothedStepLoss(LossParts parts, double share)
      : TensorStepLoss(std::move(parts)), share_(share) {}

 private:
  LossTerm term(const at::Tensor& z, const at::Tensor& targets, const at::Tensor& counts,
                const ClientBatches& of) const override {
    const int64_t classes = z.size(-1);
    const at::Tensor labels = targets.unsqueeze(-1);
    const at::Tensor hits = at::arange(classes, targets.options()).eq(labels).to(at::kFloat);
    at::Tensor own = hits, spread = labels.ge(0).to(at::kFloat);
    if (parts_.weights.defined()) {
      std::vector<int64_t> shape(static_cast<std::size_t>(z.dim()), 1);
      shape.front() = of.clients;
      shape.back() = classes;
      const at::Tensor weights = parts_.weights.narrow(0, of.first, of.clients).view(shape);
      own = hits * weights;
      spread = spread * weights;
    }
    const at::Tensor q = own * (1 - share_) + spread * (share_ / static_cast<double>(classes));
    const at::Tensor has = counted(counts, of);
    const at::Tensor total = at::sum(own.flatten(2).sum({2}) * has, {1}, /*keepdim=*/true);
    const at::Tensor weights = at::where(total > 0, has / total, at::zeros_like(has));
    return {at::neg((q * at::log_softmax(z, -1)).flatten(2).sum({2})), weights};
  }

  double share_;
};

}  // namespace

bool is_plain(const LabelForm& labels, const Cohort::Settings& settings) {
  return labels.values == 1 && !labels.multi_label && settings.smoothing < 0 &&
         settings.objective.empty() && !settings.mixes;
}

void put_weights(const LossParts& parts, std::span<const float> weights) {
  if (!parts.weights.defined() || weights.empty()) return;
  at::Tensor all = parts.weights;
  upload(all, 0, std::ssize(weights) / all.size(1), weights.data());
}

std::unique_ptr<StepLoss> make_tensor_loss(LossParts parts, double smoothing) {
  if (smoothing < 0) return std::make_unique<TensorStepLoss>(std::move(parts));
  return std::make_unique<SmoothedStepLoss>(std::move(parts), smoothing);
}

}  // namespace hanse
