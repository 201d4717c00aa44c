// What the clients of a federated job have to do, in samples. Rank 0.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cost.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

// Samples of a client's evaluation: its training samples are not gone through twice.
double samples_evaluated(const Federation& federation, int64_t client);

class Workload {
 public:
  // Draws the participants of the job's first rounds from a sampler of its own, as if it learned
  // nothing from them. `job`: as clients train, for a bound that of bound_job(). Both must outlive
  // the object.
  Workload(const Job& job, const Federation& federation, bool has_losses);

  // That can take part: one when all samples are pooled.
  int64_t clients() const { return clients_; }
  double participants() const { return participants_; }  // of a round, mean
  // Do all clients train before each draw?
  bool all_clients_first() const { return all_clients_first_; }

  // Samples that a participation of the client processes, and its mini-batch steps.
  double work(int64_t client) const;
  double steps(int64_t client) const;
  double mean_work() const;
  double mean_steps() const;
  // Samples that the busiest rank, or host, processes one after another: in a round's training, in
  // the losses before it, when all clients train, and in an evaluation of one model or of all
  // clients' own.
  double training(const Cluster& cluster) const;
  double losses(const Cluster& cluster) const;
  double all_training(const Cluster& cluster) const;
  double evaluation(const Cluster& cluster) const;
  double own_evaluation(const Cluster& cluster) const;
  // Seconds of a round's training and losses, by what a sample takes.
  double round_s(const Cluster& cluster, double train_sample_s, double sample_s) const;

  // Participants of the busiest rank, the most of the rounds drawn.
  double most_on_rank(const Cluster& cluster) const;
  // Share of the data that a rank touches: it trains its part of all rounds and evaluates its part
  // of the clients.
  double touched_share(const Cluster& cluster) const;

 private:
  using Cost = std::function<double(int64_t client)>;
  double mean(const Cost& cost) const;
  double busiest_of_draws(const Cluster& cluster, const Cost& cost) const;
  double busiest_of_all(const Cluster& cluster, const Cost& cost) const;
  int64_t samples(int64_t client) const;

  const Job& job_;
  const Federation& federation_;
  int64_t clients_;
  bool has_losses_;
  bool all_clients_first_ = false;
  std::vector<std::vector<int64_t>> draws_;
  double participants_ = 0;
};

}  // namespace hanse
