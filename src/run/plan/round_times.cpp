#include "round_times.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/protocol/federated.hpp"
#include "hanse/sums/gram.hpp"

namespace hanse {

namespace {

double sum_bytes(const FederatedFacts& facts, int64_t width) {
  return static_cast<double>(facts.exact ? sizeof(int64_t) : sizeof(float)) * number(width);
}

// Control variates go apart.
double exchange_of(const RoundKind& kind, const Cluster& cluster, const RoundTimes& times,
                   double server_s) {
  const FederatedFacts& facts = kind.facts;
  const double down_bytes = sizeof(float) * number(facts.n_params);
  const double controls_down =
      facts.control_returns ? sizeof(float) * number(facts.control_width) : 0;
  const double controls_s =
      broadcast_s(cluster, controls_down) + sum_s(cluster, sum_bytes(facts, facts.control_width));
  return controls_s + (kind.overlaps ? exchange_s(cluster, sum_bytes(facts, facts.n_params),
                                                  down_bytes, server_s)
                                     : times.up_s + server_s + times.down_s);
}

// Blocks of all updates go to the ranks that multiply them, a block a rank at a time.
double products_of(const FederatedFacts& facts, const Cluster& cluster, double product_s) {
  if (!facts.needs.gram) return 0;
  const auto ranks = number(cluster.ranks);
  const auto blocks = number(GramBlocks::count(facts.parts));
  const std::vector<double> loads(static_cast<std::size_t>(cluster.ranks),
                                  product_s * std::ceil(blocks / ranks) / blocks);
  const double received = sizeof(float) * facts.participants * number(facts.n_params) / ranks;
  const double within_s = cluster.ranks_a_host() > 1 ? received / cluster.memory.down : 0;
  const double between_s =
      cluster.hosts > 1 ? received * number(cluster.ranks_a_host()) / cluster.network.down : 0;
  return busiest(cluster, loads) + std::max(within_s, between_s);
}

// All but the long transfers, and the verdict behind each round.
double small_of(const FederatedFacts& facts, const Cluster& cluster) {
  if (cluster.ranks == 1) return 0;
  double operations = 1;
  for (const auto& sent : FederatedTrainer::footprint(facts, cluster.ranks, cluster.hosts).sent) {
    const bool is_long = sent.kind == "model" || sent.kind == "sum" || sent.kind == "controls" ||
                         sent.kind == "control sum";
    if (!is_long) operations += sent.operations;
  }
  return operations * small_s(cluster);
}

RoundTimes model_round(const RoundKind& kind, const Workload& workload, const Rates& rates,
                       const Cluster& cluster) {
  const FederatedFacts& facts = kind.facts;
  const double all_clients_s = rates.train_sample_s * workload.all_training(cluster);
  RoundTimes times;
  times.training_s = rates.train_sample_s * workload.training(cluster);
  if (facts.all_clients_first) times.all_clients_s = all_clients_s;
  if (facts.needs.losses) times.losses_s = rates.sample_s * workload.losses(cluster);
  times.products_s = products_of(facts, cluster, rates.product_s);
  times.down_s = broadcast_s(cluster, sizeof(float) * number(facts.n_params));
  times.up_s = sum_s(cluster, sum_bytes(facts, facts.n_params));
  times.exchange_s = exchange_of(kind, cluster, times, rates.server_s);
  times.small_s = small_of(facts, cluster);
  times.evaluation_s = rates.sample_s * (kind.own_models ? workload.own_evaluation(cluster)
                                                         : workload.evaluation(cluster));
  if (kind.trains_to_evaluate) times.evaluation_s += all_clients_s;
  return times;
}

}  // namespace

RoundTimes estimate_round(const RoundKind& kind, const Workload& workload, const Rates& rates,
                          const Cluster& started, const Cluster& planned) {
  RoundTimes times = model_round(kind, workload, rates, planned);
  if (!rates.whole) return times;
  const double explained_s = model_round(kind, workload, rates, started).round_s();
  times.small_s += std::max(0.0, rates.round_s - explained_s);
  return times;
}

}  // namespace hanse
