#include "round_times.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "assemble/virtual_time.hpp"
#include "hanse/base/index.hpp"
#include "hanse/client/round_steps.hpp"
#include "hanse/comm/balance.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/protocol/ahead_tasks.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/protocol/footprint.hpp"
#include "hanse/protocol/participation.hpp"

namespace hanse {

namespace {

constexpr int64_t kDraws = 30;  // rounds whose participants are drawn

// The times of the sum, the model and the server's step, without control variates.
PlannedTimes transfers_of(const RoundKind& kind, const Cluster& cluster, double server_s) {
  const FederatedFacts& facts = kind.facts;
  const double entry = facts.exact ? sizeof(int64_t) : sizeof(float);
  const double up_bytes = entry * number(facts.n_params);
  const double down_bytes = sizeof(float) * number(facts.n_params);
  PlannedTimes times{.down_s = transfer_s(cluster, down_bytes),
                     .up_s = transfer_s(cluster, up_bytes)};
  times.exchange_s = kind.overlaps ? exchange_s(cluster, up_bytes, down_bytes, server_s)
                                   : times.up_s + server_s + times.down_s;
  times.link_bytes = link_bytes(cluster, up_bytes) + link_bytes(cluster, down_bytes);
  const double controls = number(facts.control_width);
  times.exchange_s += transfer_s(cluster, entry * controls);
  if (facts.control_returns) times.exchange_s += transfer_s(cluster, sizeof(float) * controls);
  return times;
}

// The time of the products, or of a rule's own columns: each rank has its part of all updates.
double products_of(const FederatedFacts& facts, const Cluster& cluster, double product_s) {
  const bool spread = facts.needs.gram || facts.needs.own_columns;
  if (!spread || cluster.ranks == 1) return product_s;
  const double received =
      sizeof(float) * facts.participants * number(facts.n_params) / number(cluster.ranks);
  return shared_s(cluster, product_s, cluster.ranks, cluster.ranks) +
         (cluster.hosts > 1 ? received * number(cluster.ranks_a_host()) / cluster.network.rate
                            : received / cluster.memory.rate);
}

PlannedTimes model_round(const RoundKind& kind, const Workload& workload, const Rates& rates,
                         const Cluster& cluster) {
  const FederatedFacts& facts = kind.facts;
  PlannedTimes times = transfers_of(kind, cluster, rates.means.server_s);
  times.training_s = workload.training_s(cluster, rates);
  times.products_s = products_of(facts, cluster, rates.product_s);
  const RoundFootprint footprint = federated_footprint(facts, cluster.ranks, cluster.hosts);
  times.small_s = (footprint.operations() + 1) * small_s(cluster);  // and the verdict behind it
  const int64_t workers = kind.own_models ? cluster.workers() : cluster.ranks;
  double evaluation_s = rates.sample_s * workload.evaluated;
  evaluation_s += rates.train_sample_s * workload.tuned;
  if (kind.trains_to_evaluate) evaluation_s += rates.train_sample_s * workload.all.trained;
  times.evaluation_s = shared_s(cluster, evaluation_s, facts.clients, workers);
  return times;
}

// Passes over a participant's samples of a loss, before its training.
double loss_passes(const ClusterOptions& clusters, bool needs_losses) {
  const bool chooses_copies = clusters.has_clusters() && clusters.copies_of.empty();
  return (needs_losses ? 1 : 0) + (chooses_copies ? number(clusters.models) : 0);
}

Workload::Work planned_work(const Job& job, const Federation& federation, double passes,
                            int64_t client) {
  const int64_t samples =
      job.client.pooled ? federation.train_samples() : federation.train(client).size();
  const int64_t batches = loss_batches(job.aggregator.loss);
  return {.steps = number(local_steps(job.client, samples)),
          .trained = number(samples_processed(job.client, samples)),
          .losses = passes * number(loss_samples(job.client, batches, samples))};
}

}  // namespace

double samples_evaluated(const Federation& federation, int64_t client, EvaluateOn on) {
  const SampleRange train = federation.train(client);
  const SampleRange own = evaluated_samples(federation, client, on);
  const bool both = on == EvaluateOn::kBoth && client < federation.clients();
  return number(own.size() + (own.begin == train.begin ? 0 : train.size()) +
                (both ? federation.validation(client).size() : 0));
}

Workload::Workload(const Job& job, const Federation& federation, bool needs_losses,
                   Turnout* turnout)
    : clients(job.client.pooled ? 1 : federation.clients()) {
  const double passes = loss_passes(job.client, needs_losses);
  has_losses = passes > 0;
  const int64_t batches = loss_batches(job.aggregator.loss);
  const EvaluateOn on = asked_of(job).on;
  const auto work_of = [&](int64_t client) {
    return planned_work(job, federation, passes, client);
  };
  for (int64_t client = 0; client < clients; ++client) {
    const Work work = work_of(client);
    all.steps += work.steps;
    all.trained += work.trained;
    samples_of_client.push_back(work.trained);
  }
  ClientOptions tuning = job.client;
  tuning.steps = job.evaluate.tune_steps;
  tuning.phases = {};
  for (const int64_t client : evaluated_clients(federation, asked_of(job), 0)) {
    const int64_t samples = federation.train(client).size();
    if (tuning.steps > 0 && samples > 0) tuned += number(samples_processed(tuning, samples));
    evaluated += samples_evaluated(federation, client, on);
  }
  const auto sampler = make_sampler(drawing_job(job), federation);
  Participation participation(
      *sampler, make_availability(job.sampler.availability, federation.clients()), federation,
      {.seed = seed_of(job, job.sampler.seed), .regret = job.evaluate.regret}, turnout);
  rounds.resize(static_cast<std::size_t>(std::clamp<int64_t>(job.run.rounds, 1, kDraws)));
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    if (participation.needs_all_clients()) {
      participation.observe_all(
          std::vector<double>(static_cast<std::size_t>(federation.clients()), 1));
    }
    const auto asked = participation.candidates(static_cast<int64_t>(round) + 1);
    participation.take_candidates(std::vector<double>(asked.size(), 1));
    for (const int64_t client : asked) {
      candidate_samples +=
          number(loss_samples(job.client, batches, federation.train(client).size()));
    }
    candidates += number(std::ssize(asked));
    for (const int64_t client : participation.draw(static_cast<int64_t>(round) + 1).clients) {
      rounds[round].push_back(work_of(client));
    }
    participants += static_cast<double>(rounds[round].size());
    if (!turnout) continue;
    turnouts.push_back(participation.turnout());
    const auto& ask = turnouts.back().upcoming;
    upcoming.push_back(ask ? ask() : std::vector<UpcomingTask>());
    versions_kept = std::max(versions_kept, number(std::ssize(turnouts.back().kept)));
    virtual_s = turnout->seconds() / number(static_cast<int64_t>(round) + 1);
  }
  const auto n = static_cast<double>(rounds.size());
  participants /= n;
  candidates /= n;
  candidate_samples /= n;
  all_clients_first = participation.needs_all_clients();
}

Workload::Busy Workload::rounds_s(const Cluster& cluster, double train_sample_s,
                                  double sample_s) const {
  const int64_t workers = cluster.workers();
  AheadTasks ahead;
  Busy busy;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    std::vector<double> costs;
    for (const Work& one : rounds[r]) {
      costs.push_back(train_sample_s * one.trained + sample_s * one.losses);
    }
    std::vector<int64_t> trained(costs.size(), -1);  // by this worker, ahead of its round
    const bool is_timed = !turnouts.empty() && !turnouts[r].tasks.empty();
    for (std::size_t i = 0; is_timed && i < costs.size(); ++i) {
      trained[i] = ahead.take(turnouts[r].draw.clients[i], turnouts[r].tasks[i]);
      if (trained[i] >= 0) costs[i] = 0;
    }
    auto worker_of = balance(costs, workers);
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (trained[i] >= 0) worker_of[i] = trained[i];
    }
    auto loads = loads_of(cluster, costs, worker_of);
    busy.round_s += busiest(cluster, loads);
    busy.training_s += std::accumulate(loads.begin(), loads.end(), 0.0);
    if (!is_timed) continue;
    const auto seconds = [&](const UpcomingTask& task) {
      return train_sample_s * samples_of_client[to_index(task.client)];
    };
    loads.erase(loads.begin(), loads.end() - workers);
    for (const UpcomingTask& task : ahead.plan(loads, upcoming[r], seconds)) {
      busy.training_s += seconds(task);
    }
  }
  return busy;
}

double Workload::drawn_s(const Cluster& cluster, double train_sample_s, double sample_s) const {
  return rounds_s(cluster, train_sample_s, sample_s).round_s / static_cast<double>(rounds.size());
}

double Workload::busy_share(const Cluster& cluster, double train_sample_s, double sample_s) const {
  const Busy busy = rounds_s(cluster, train_sample_s, sample_s);
  return busy.training_s / (busy.round_s * number(cluster.workers()));
}

double Workload::training_s(const Cluster& cluster, const Rates& rates) const {
  const double all_s = rates.train_sample_s * (all_clients_first ? all.trained : 0);
  const double candidates_s = rates.sample_s * candidate_samples;
  return drawn_s(cluster, rates.train_sample_s, rates.sample_s) +
         shared_s(cluster, all_s, clients, cluster.workers()) +
         (candidates > 0
              ? shared_s(cluster, candidates_s, static_cast<int64_t>(candidates), cluster.workers())
              : 0);
}

double Workload::most_on_rank(const Cluster& cluster) const {
  double most = 0;
  for (const auto& round : rounds) {
    std::vector<double> costs;
    for (const Work& one : round) costs.push_back(one.trained);
    const auto on_rank =
        loads_of(cluster, std::vector<double>(costs.size(), 1), balance(costs, cluster.workers()));
    most = std::max(most, *std::max_element(on_rank.begin(), on_rank.end()));
  }
  return most;
}

Link measured_link(const RoundKind& kind, const Rates& rates, const Cluster& started) {
  if (started.ranks == 1) return {};
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  Cluster unit = started;
  unit.network = unit.memory = {.rate = kInfinite};
  (started.hosts > 1 ? unit.network : unit.memory) = {.rate = 1};
  const double bytes = transfers_of(kind, unit, 0).exchange_s;  // at a byte a second
  return {.latency_s = rates.machine.link.latency_s,
          .rate = bytes / std::max(rates.means.transfer_s, 1e-9)};
}

PlannedTimes estimate_round(const RoundKind& kind, const Workload& workload, const Rates& rates,
                            const Cluster& started, const Cluster& planned) {
  PlannedTimes times = model_round(kind, workload, rates, planned);
  times.rest_s = rates.rule_s;
  if (!rates.whole) return times;
  const double explained_s = model_round(kind, workload, rates, started).round_s();
  times.rest_s = std::max(0.0, rates.means.round_s - explained_s);
  return times;
}

}  // namespace hanse
