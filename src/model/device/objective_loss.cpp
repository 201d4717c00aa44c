// A loss of the user's own in a cohort: client after client.
#include <utility>

#include "device/step_loss.hpp"
#include "hanse/base/index.hpp"
#include "networks/scripts/script_objective.hpp"

namespace hanse {

namespace {

class ObjectiveLoss final : public StepLoss {
 public:
  ObjectiveLoss(LossParts parts, ObjectiveParts more, const ObjectiveCase& c)
      : parts_(std::move(parts)),
        more_(std::move(more)),
        script_(c, parts_.samples.targets.device()) {}

  void start(const at::Tensor& received, std::span<const float> weights) override {
    put_weights(parts_, weights);
    if (!script_.names(ScriptLoss::kReceivedRow) && !script_.names(ScriptLoss::kReceivedLogits)) {
      return;
    }
    if (!received_.defined()) {
      received_ = at::empty({parts_.table.counts().numel(), received.size(-1)}, received.options());
    }
    received_.copy_(received);
  }

  void prepare(int64_t clients) override {
    row_gradients_.clear();
    if (!script_.names(ScriptLoss::kReceivedLogits)) return;
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& tensor : tensors_of(received_, more_.layout)) {
      leaves.push_back(tensor.narrow(0, 0, clients));
    }
    const at::Tensor order = parts_.table.places().narrow(0, 0, clients * parts_.batch);
    const at::Tensor input =
        parts_.samples.features.index_select(0, order).view({clients, parts_.batch, -1});
    received_logits_ = more_.network.logits(leaves, input, {});
  }

  Found differentiate(const at::Tensor& z, const ClientBatches& of,
                      const StepTotals& totals) override {
    Found found{at::zeros_like(z), at::zeros({of.clients}, z.options().dtype(at::kDouble))};
    const auto counts =
        parts_.noise.of_clients(parts_.table.number(), of.first + of.clients).counts;
    for (int64_t i = 0; i < of.clients; ++i) {
      const int64_t client = of.first + i, n = counts[to_index(client)];
      if (n == 0) continue;
      found.delta[i].narrow(0, 0, n).copy_(of_client(client, z[i].narrow(0, 0, n), found.means[i]));
    }
    if (totals.losses.defined()) {
      at::Tensor total = totals.losses;
      total.narrow(0, of.first, of.clients).add_(found.means);
    }
    return found;
  }

  void add_row_gradient() override {
    const at::NoGradGuard no_grad;
    for (const auto& [client, gradients] : row_gradients_) {
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (gradients[i].defined()) more_.gradients[i][client].add_(gradients[i][0]);
      }
    }
  }

 private:
  // Returns the gradient by a client's logits, and adds its loss to `mean`.
  at::Tensor of_client(int64_t client, const at::Tensor& z, at::Tensor mean) {
    const int64_t n = z.size(0);
    const at::Tensor order = parts_.table.places().narrow(0, client * parts_.batch, n);
    if (!parts_.samples.others.defined())
      return of_labels(client, z, order, parts_.samples.targets, 0, {}, mean);
    const at::Tensor share = parts_.samples.shares.index_select(0, order.narrow(0, 0, 1));
    return of_labels(client, z, order, parts_.samples.targets, 0, share, mean) +
           of_labels(client, z, order, parts_.samples.others, 1, 1 - share, mean);
  }

  // The same by these labels of the samples, which count by `share` [1]; undefined: 1. `number`:
  // that of the call in the step.
  at::Tensor of_labels(int64_t client, const at::Tensor& z, const at::Tensor& order,
                       const at::Tensor& targets, int64_t number, const at::Tensor& share,
                       at::Tensor& mean) {
    const at::AutoGradMode training(true);
    const at::Tensor labels = script_.labels(targets.index_select(0, order), z.size(0));
    ScriptLoss::Given given;
    given[ScriptLoss::kLogits] = z.detach().clone().requires_grad_();
    given[ScriptLoss::kLabels] = labels;
    given[ScriptLoss::kSampleWeights] = parts_.weights.defined()
                                            ? parts_.weights[client].index_select(0, labels)
                                            : at::ones({z.size(0)}, z.options());
    std::vector<at::Tensor> by{given[ScriptLoss::kLogits]};
    if (script_.names(ScriptLoss::kRow)) {
      const auto leaves = of_client(more_.rows, client);
      for (const at::Tensor& leaf : leaves) by.push_back(leaf.detach().requires_grad_());
      given[ScriptLoss::kRow] = row_of({by.begin() + 1, by.end()});
    }
    if (script_.names(ScriptLoss::kReceivedRow)) {
      given[ScriptLoss::kReceivedRow] =
          row_of(of_client(tensors_of(received_, more_.layout), client));
    }
    if (script_.names(ScriptLoss::kReceivedLogits)) {
      given[ScriptLoss::kReceivedLogits] = received_logits_[client].narrow(0, 0, z.size(0));
    }
    const uint64_t seed =
        parts_.noise.of_clients(parts_.table.number(), client + 1, first_ + number)
            .seeds[to_index(client)];
    ScriptLoss::Found found = script_.differentiate(given, by, seed);
    const at::NoGradGuard no_grad;
    if (share.defined()) {
      for (at::Tensor& gradient : found.gradients) gradient.mul_(share);
      found.loss = found.loss.to(at::kDouble) * share[0];
    }
    mean.add_(found.loss.sum());
    if (by.size() > 1) {
      row_gradients_.push_back({client, {found.gradients.begin() + 1, found.gradients.end()}});
    }
    return found.gradients[0];
  }

  static std::vector<at::Tensor> of_client(const std::vector<at::Tensor>& tensors, int64_t client) {
    std::vector<at::Tensor> own;
    for (const at::Tensor& tensor : tensors) own.push_back(tensor.narrow(0, client, 1));
    return own;
  }

  // The whole network's trainable row, from a client's tensors.
  at::Tensor row_of(const std::vector<at::Tensor>& leaves) const {
    std::vector<at::Tensor> flat;
    int64_t left = script_.of().n_trainable;
    for (const at::Tensor& tensor : more_.network.whole(leaves)) {
      if (left <= 0) break;  // buffers
      flat.push_back(tensor.flatten());
      left -= flat.back().numel();
    }
    return at::cat(flat);
  }

  LossParts parts_;
  ObjectiveParts more_;
  ScriptLoss script_;
  int64_t first_ = more_.own_seeds;
  at::Tensor received_;         // [C, P] where the loss asks for it
  at::Tensor received_logits_;  // [clients, B, outputs] likewise
  std::vector<std::pair<int64_t, std::vector<at::Tensor>>> row_gradients_;  // of clients
};

}  // namespace

std::unique_ptr<StepLoss> make_objective_loss(LossParts parts, ObjectiveParts more,
                                              const ObjectiveCase& c) {
  return std::make_unique<ObjectiveLoss>(std::move(parts), std::move(more), c);
}

}  // namespace hanse
