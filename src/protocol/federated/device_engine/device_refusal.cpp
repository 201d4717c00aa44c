// What cohorts on devices cannot do.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "hanse/protocol/engines.hpp"

namespace hanse {

std::optional<Refusal> device_refusal(const RoundNeeds& needs) {
  const FederatedSettings& settings = needs.settings;
  const ClientOptions& client = needs.client;
  const std::string cannot = " is not trained on GPUs";
  const std::string own_loss = own_loss_key(client);
  const bool rule_keeps = needs.rule.last_updates || needs.rule.sign_share;
  const std::pair<bool, Refusal> refusals[] = {
      {needs.labels.values > 1 || needs.labels.multi_label,
       {"a label of several values" + cannot, "data.kind", "use data with one label a sample"}},
      {rule_keeps,
       {fmt::format("what {} keeps of each client does not lie on GPUs", needs.rule_kind),
        "aggregator.kind", "use another"}},
      {needs.rule.rejects || needs.rule.forged,
       {"robust rules look at updates in the hosts' memory", "aggregator.kind", "use another"}},
      {settings.squares,
       {"the losses of single samples do not leave GPUs", "sampler.kind", "use another"}},
      {settings.timed,
       {"clients that start from several models, or make fewer steps, are not trained on GPUs",
        settings.async.is_on() ? "async.kind" : "clock.late", "use none or drop"}},
      {!own_loss.empty(),
       {"another loss than model.loss" + cannot, own_loss, "leave it as it is by default"}},
      {client.optimizer.state == Moments::kKept && client.momentum > 0,
       {"momentum that clients keep" + cannot, "client.optimizer-state", "use fresh"}},
      {!client.train.empty() || client.lora > 0,
       {"a part of a model" + cannot, client.lora > 0 ? "client.lora" : "client.train",
        "leave it as it is by default"}},
      {!augmentation_key(client.augmentation).empty(),
       {"an augmented image" + cannot, augmentation_key(client.augmentation),
        "leave it as it is by default"}},
      {!needs.moves_all,
       {"a model with buffers or frozen parameters" + cannot, "model.path",
        "use group norm, which has no buffers"}},
      {client.accumulate > 1, {"a step of several batches" + cannot, "client.accumulate", "use 1"}},
      {!needs.update.trains_side_by_side(),
       {needs.update_kind + cannot + " with these options", "client.update", "use sgd or prox"}},
      {needs.compress != Compress::kNone,
       {"updates are not compressed on GPUs", "comm.compress", "use none"}},
      {client.worker_momentum > 0,
       {"momentum of what clients send" + cannot, "client.worker-momentum", "use 0"}},
      {needs.tunes,
       {"models are not tuned for evaluations on GPUs", "evaluate.tune-steps", "use 0"}},
      {settings.own_models && !needs.update.keeps_own_model(),
       {"models that clients do not keep are not made on GPUs", "evaluate.view",
        "use evaluate.view = global"}},
  };
  if (needs.off_gpus) return needs.off_gpus;
  for (const auto& [applies, refusal] : refusals) {
    if (applies) return refusal;
  }
  return std::nullopt;
}

}  // namespace hanse
