#include "federated_checks.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/evaluation/sample_table.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/clock.hpp"
#include "hanse/kinds/clusters.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/protocol/footprint.hpp"
#include "hanse/rules/attack/options.hpp"
#include "virtual_time.hpp"

namespace hanse {

// Clients that send gradients, and rules that mix after the training, know nothing of buffers.
void check_buffers(const Job& job, const ParameterLayout& layout, bool gradients_count) {
  if (!gradients_count || layout.n_trainable() == layout.n_params()) return;
  throw InvalidArgument(
      fmt::format("{} works on gradients, and the model has buffers", job.aggregator.kind),
      "aggregator.kind", "group norm has no buffers; other aggregators average them");
}

// The scaled sum of a round with a time limit weighs as a mean on average alone: a variance could
// turn negative.
void check_time_limit(const Job& job, const ParameterLayout& layout) {
  if (job.run.round_seconds == 0 || layout.n_trainable() == layout.n_params()) return;
  throw InvalidArgument("a model with buffers needs every participant's update", "model.kind",
                        "group norm has no buffers, or run.round-seconds = 0");
}

void check_root(const Job& job, const Federation& federation) {
  const int64_t kept_out = federation.held_out(), root = job.aggregator.root;
  if (root >= kept_out || federation.train(federation.clients() + root).size() == 0) {
    throw InvalidArgument(
        fmt::format("{} trusts the samples of a client that is kept out of training; {} are, with "
                    "samples to train on",
                    job.aggregator.kind, kept_out),
        "aggregator.root", "federation.held-out = 1 keeps one out");
  }
}

double participation_of(const Job& job, int64_t most, int64_t clients) {
  const bool varies = sampler_traits(job.sampler).by_chance;
  const int64_t number = varies ? std::min(job.sampler.per_round, clients) : most;
  return static_cast<double>(number) / static_cast<double>(clients);
}

void check_clients(const Job& job, int64_t clients) {
  require_clients_for_copies(job, clients);
  attacking_clients(job.attack, clients, static_cast<uint64_t>(job.run.seed));
  const int64_t draws = draws_of(drawing_job(job).sampler, clients);
  const double share = participation_of(job, most_updates(job, draws, clients), clients);
  require_participants(job, clients, std::llround(share * static_cast<double>(clients)));
  if (!is_own_rule(job.aggregator.kind)) require_attendance(job, facts_of(job).rule, share);
  check_clock(job, clients);
}

void check_memory(const MemoryCase& c) {
  const FederatedFacts facts{.clients = c.federation.clients(),
                             .participants = static_cast<double>(c.participants),
                             .needs = c.needs,
                             .parts = row_parts(c.layout, c.needs.layers),
                             .n_params = c.layout.n_params()};
  const RoundFootprint footprint = federated_footprint(facts, c.comm.size(), 1);
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
  require_planned_memory(sample_table_bytes(c.federation, asked), "the scores of all samples take",
                         "evaluate.scores", "leave it false");
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
