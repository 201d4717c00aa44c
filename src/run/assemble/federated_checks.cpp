#include "federated_checks.hpp"

#include <string>

#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/protocol/federated.hpp"
#include "simulation.hpp"

namespace hanse {

// Clients that send gradients, and rules that mix after the training, know nothing of buffers.
void check_buffers(const Job& job, const ParameterLayout& layout, bool gradients_count) {
  if (!gradients_count || layout.n_trainable() == layout.n_params()) return;
  throw InvalidArgument(
      fmt::format("{} works on gradients, and the model has buffers", job.aggregator.kind),
      "aggregator.kind", "group norm has no buffers; other aggregators average them");
}

// A round with a time limit reports nothing of those it leaves out.
void check_time_limit(const Job& job, const LocalUpdate& update, const AggregatorNeeds& needs,
                      const ParameterLayout& layout) {
  if (job.run.round_seconds == 0) return;
  const auto refuse = [](const std::string& who, const std::string& key, const std::string& hint) {
    throw InvalidArgument(who + " needs every participant's update", key,
                          hint + ", or run.round-seconds = 0");
  };
  if (!sampler_traits(job.sampler).blind) {
    refuse(job.sampler.kind, "sampler.kind", "use uniform, full, weighted or lipschitz");
  }
  if (needs.norms || needs.after_training() || needs.rates || needs.trials > 0) {
    refuse(job.aggregator.kind, "aggregator.kind", "use a rule that weighs before training");
  }
  if (update.state_width() > 0 || update.sends_direction()) {
    refuse(job.client.kind, "client.update", "use sgd or prox");
  }
  if (job.run.trace) refuse("a trace", "run.trace", "use run.trace = false");
  // The scaled sum weighs them as a mean on average alone: a variance could turn negative.
  if (layout.n_trainable() < layout.n_params()) {
    refuse("a model with buffers", "model.kind", "group norm has no buffers");
  }
}

// The sampler may need what the loss of each sample is.
void check_squares(const Job& job, const LocalUpdate& update) {
  if (!sampler_traits(job.sampler).squares) return;
  const auto refuse = [&](const std::string& who, const std::string& key, const std::string& hint) {
    throw InvalidArgument(
        fmt::format("sampler {} needs the loss of each sample, which {} does not tell",
                    job.sampler.kind, who),
        key, hint);
  };
  const std::string own_loss = own_loss_key(job.client);
  if (!own_loss.empty()) refuse(own_loss, own_loss, "leave it as it is by default");
  if (!update.finds_squares()) refuse(job.client.kind, "client.update", "use sgd or prox");
}

void check_view(const Job& job, const LocalUpdate& update) {
  if (!evaluates_own_models(job) || !update.sends_direction()) return;
  throw InvalidArgument("clients of this job send directions and have no models of their own",
                        "evaluate.view", "use evaluate.view = global");
}

// Throws InvalidArgument for rules that do not go with the job's other parts.
void check_rule(const Job& job, const AggregatorNeeds& needs) {
  if (needs.columns && job.async.is_on()) {
    throw InvalidArgument("a step by columns cannot count old updates less", "aggregator.kind",
                          "use a rule with coefficients, or async.kind = none");
  }
  const bool weighs_late =
      job.clock.is_on() && job.clock.carries() && job.async.staleness != StalenessKind::kConstant;
  if (needs.columns && weighs_late) {
    throw InvalidArgument("a step by columns cannot count late updates less", "clock.late",
                          "async.staleness = constant, or clock.late = drop or partial");
  }
  if (needs.forged && (needs.layers || needs.last_updates || needs.sign_share)) {
    throw InvalidArgument(
        fmt::format("{} weighs more than the round's updates, which attackers forge",
                    job.aggregator.kind),
        "aggregator.kind", "use another rule, or an attack on the training");
  }
}

void check_root(const Job& job, const Federation& federation, const LocalUpdate& update) {
  const int64_t kept_out = federation.held_out(), root = job.aggregator.root;
  if (root >= kept_out || federation.train(federation.clients() + root).size() == 0) {
    throw InvalidArgument(
        fmt::format("{} trusts the samples of a client that is kept out of training; {} are, with "
                    "samples to train on",
                    job.aggregator.kind, kept_out),
        "aggregator.root", "federation.held-out = 1 keeps one out");
  }
  if (update.state_width() + update.control_width() == 0) return;
  throw InvalidArgument(
      fmt::format("the server trains as a client that keeps nothing, and those of {} do",
                  job.client.kind),
      "client.update", "use sgd or prox");
}

void check_memory(const MemoryCase& c) {
  const FederatedFacts facts{.clients = c.federation.clients(),
                             .participants = static_cast<double>(c.participants),
                             .needs = c.needs,
                             .parts = row_parts(c.layout, c.needs.layers),
                             .n_params = c.layout.n_params()};
  const RoundFootprint footprint = FederatedTrainer::footprint(facts, c.comm.size(), 1);
  require_planned_memory(
      footprint.memory_bytes_of("model rows") + footprint.memory_bytes_of("sums"),
      fmt::format("the rows of {} parameters that a rank keeps take", facts.n_params), "model.kind",
      "use a smaller model");
  if (c.comm.rank() != 0) return;
  require_planned_memory(
      rule_bytes(facts, c.comm.size()),
      fmt::format("{} of {} participants takes", c.job.aggregator.kind, c.participants),
      "aggregator.kind",
      c.needs.full ? "aaggff-d is for many clients"
                   : "draw fewer participants, or use a rule without numbers of each pair");
  const AskedMetrics asked = asked_of(c.job);
  if (asked.clients > 0) return;
  require_planned_memory(evaluation_bytes(c.federation.clients() + c.federation.held_out(),
                                          c.federation.classes(), asked, c.tunes),
                         fmt::format("an evaluation of {} clients takes", c.federation.clients()),
                         "evaluate.clients", "evaluate.clients = 1000 draws so many for each");
}

std::string pairs_notice(const MemoryCase& c) {
  constexpr double kProductsASecond = 1e10;  // of updates' values
  constexpr double kWorthALine_s = 2;
  if (c.comm.rank() != 0) return "";
  const auto k = static_cast<double>(c.participants);
  const auto p = static_cast<double>(c.layout.n_params());
  const double samples = static_cast<double>(c.federation.train_samples()) /
                         static_cast<double>(c.federation.clients());
  double seconds =
      rule_seconds({.clients = c.federation.clients(), .participants = k, .needs = c.needs});
  if (c.needs.gram) seconds += k * k * p / 2 / kProductsASecond;
  const double training_s = 3 * k * samples * p / kProductsASecond;  // once through their samples
  if (seconds < kWorthALine_s || seconds < training_s) return "";
  return fmt::format(
      "aggregator.kind = {}: its numbers of each pair of {} participants take about {} a round, "
      "more than their training",
      c.job.aggregator.kind, c.participants, duration_text(seconds));
}

}  // namespace hanse
