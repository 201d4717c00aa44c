// A round of a federated job on given machines: its parts in seconds, bytes and memory.
#pragma once

#include <span>
#include <vector>

#include "calibration.hpp"
#include "cost.hpp"
#include "../federated_assembly.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

// What rank 0 needs to foretell a round.
class RoundModel {
 public:
  RoundModel(const Job& job, FederatedAssembly& parts, const Cluster& cluster,
             const Calibration& found);

  double training_s() const;
  double losses_s() const;
  double foresight_s() const;
  double gram_s() const;
  double down_s() const { return broadcast_s(cluster_, down_bytes()); }
  double up_s() const { return sum_s(cluster_, up_bytes()); }
  // Those two and the server's step, which overlap; control variates go apart.
  double exchange_s() const;
  double small_operations_s() const;
  double evaluation_s() const;
  double round_s() const;

  double sent_bytes() const;
  double messages() const;
  double participants() const { return participants_; }
  double kept_rows() const;  // the most on a rank
  double rows_bytes() const;
  double kept_bytes() const;
  double states_bytes() const;
  double touched_share() const;

 private:
  double down_bytes() const { return 4 * static_cast<double>(parts_.model->n_params()); }
  double up_bytes() const { return sum_bytes() * static_cast<double>(parts_.model->n_params()); }
  double controls_down_bytes() const;
  double controls_up_bytes() const;
  int64_t gram_blocks() const;
  double gram_bytes() const;
  double sum_bytes() const { return job_.comm.reduction == "fast" ? 4 : 8; }
  bool foresees() const { return job_.evaluate.regret || parts_.sampler->needs_foresight(); }
  template <class Cost>
  double busiest_of_draws_s(Cost cost) const;
  template <class Cost>
  double all_clients_s(Cost cost) const;
  double loss_samples(int64_t client) const;

  const Job& job_;
  FederatedAssembly& parts_;
  const Cluster& cluster_;
  const Calibration& found_;
  AggregatorNeeds needs_;
  std::vector<std::vector<int64_t>> draws_;
  double participants_ = 0;  // mean of a round
};

}  // namespace hanse
