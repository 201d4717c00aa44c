#include "workload.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "hanse/protocol/participation.hpp"
#include "hanse/protocol/schedule.hpp"
#include "hanse/kinds/availability.hpp"
#include "hanse/kinds/samplers.hpp"

namespace hanse {

namespace {

constexpr int64_t kDraws = 30;  // rounds whose participants are drawn

}  // namespace

double samples_evaluated(const Federation& federation, int64_t client) {
  const SampleRange train = federation.train(client);
  const SampleRange test = federation.test(client);
  return number(test.size() + (test.begin == train.begin ? 0 : train.size()));
}

Workload::Workload(const Job& job, const Federation& federation, bool has_losses)
    : job_(job),
      federation_(federation),
      clients_(job.client.pooled ? 1 : federation.clients()),
      has_losses_(has_losses) {
  const auto sampler = make_sampler(job, federation);
  const auto availability = make_availability(job.sampler.availability, federation.clients());
  Participation participation(
      *sampler, availability.get(), federation,
      {.seed = static_cast<uint64_t>(job.run.seed), .regret = job.evaluate.regret});
  const int64_t rounds = std::clamp<int64_t>(job.run.rounds, 1, kDraws);
  for (int64_t round = 1; round <= rounds; ++round) {
    if (participation.needs_foresight()) {
      participation.foresee(std::vector<double>(static_cast<std::size_t>(federation.clients()), 1));
    }
    draws_.push_back(participation.draw(round).clients);
    participants_ += number(static_cast<int64_t>(draws_.back().size()));
  }
  participants_ /= number(rounds);
  all_clients_first_ = participation.needs_foresight();
}

int64_t Workload::samples(int64_t client) const {
  return job_.client.pooled ? federation_.train_samples() : federation_.train(client).size();
}

double Workload::work(int64_t client) const {
  return number(samples_processed(job_.client, samples(client)));
}

double Workload::steps(int64_t client) const {
  return number(local_steps(job_.client, samples(client)));
}

double Workload::mean(const Cost& cost) const {
  double sum = 0;
  for (int64_t client = 0; client < clients_; ++client) sum += cost(client);
  return sum / number(clients_);
}

double Workload::mean_work() const {
  return mean([&](int64_t client) { return work(client); });
}

double Workload::mean_steps() const {
  return mean([&](int64_t client) { return steps(client); });
}

// Mean over the draws.
double Workload::busiest_of_draws(const Cluster& cluster, const Cost& cost) const {
  double total = 0;
  for (const auto& draw : draws_) {
    std::vector<double> costs;
    for (const int64_t client : draw) costs.push_back(cost(client));
    total += busiest(cluster, loads_of(cluster, costs, balance(costs, cluster.workers())));
  }
  return total / number(static_cast<int64_t>(draws_.size()));
}

// Every client on the rank that would keep its state, were they spread evenly.
double Workload::busiest_of_all(const Cluster& cluster, const Cost& cost) const {
  std::vector<double> costs;
  std::vector<int64_t> workers;
  for (int64_t client = 0; client < clients_; ++client) {
    costs.push_back(cost(client));
    workers.push_back(client % cluster.workers());
  }
  return busiest(cluster, loads_of(cluster, costs, workers));
}

double Workload::training(const Cluster& cluster) const {
  return busiest_of_draws(cluster, [&](int64_t client) { return work(client); });
}

double Workload::losses(const Cluster& cluster) const {
  const int64_t batches = loss_batches(job_.aggregator.loss);
  return busiest_of_draws(cluster, [&](int64_t client) {
    return number(loss_samples(batches, job_.client, federation_.train(client).size()));
  });
}

double Workload::all_training(const Cluster& cluster) const {
  return busiest_of_all(cluster, [&](int64_t client) { return work(client); });
}

double Workload::own_evaluation(const Cluster& cluster) const {
  return busiest_of_all(cluster,
                        [&](int64_t client) { return samples_evaluated(federation_, client); });
}

// As evaluate_clients() shares the clients out.
double Workload::evaluation(const Cluster& cluster) const {
  const int64_t all = federation_.clients() + federation_.held_out();
  std::vector<int64_t> sizes;
  for (int64_t client = 0; client < all; ++client) {
    sizes.push_back(federation_.train(client).size() + federation_.test(client).size());
  }
  const auto borders = cut_evenly(sizes, cluster.ranks);
  std::vector<double> loads(static_cast<std::size_t>(cluster.ranks));
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    for (int64_t client = borders[rank]; client < borders[rank + 1]; ++client) {
      loads[rank] += samples_evaluated(federation_, client);
    }
  }
  return busiest(cluster, loads);
}

double Workload::round_s(const Cluster& cluster, double train_sample_s, double sample_s) const {
  const double trained = training(cluster) + (all_clients_first_ ? all_training(cluster) : 0);
  return train_sample_s * trained + sample_s * (has_losses_ ? losses(cluster) : 0);
}

double Workload::most_on_rank(const Cluster& cluster) const {
  double most = 0;
  for (const auto& draw : draws_) {
    std::vector<double> costs;
    for (const int64_t client : draw) costs.push_back(work(client));
    std::vector<double> rows(static_cast<std::size_t>(cluster.workers()));
    for (const int64_t worker : balance(costs, cluster.workers())) {
      most = std::max(most, ++rows[static_cast<std::size_t>(worker)]);
    }
  }
  return most;
}

double Workload::touched_share(const Cluster& cluster) const {
  const double drawn = participants_ * number(job_.run.rounds) / number(cluster.workers());
  const double not_drawn = std::pow(1 - 1 / number(clients_), drawn);
  return 1 - (1 - 1 / number(cluster.ranks)) * not_drawn;
}

}  // namespace hanse
