// Makes the rules of a federated job.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "assemble.hpp"
#include "hanse/job/job.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// Makes sampler and optimizer, on rank 0, and aggregator, each as the job says or beside a twin
// that proves it pure. Job and parts must outlive it.
class RuleFactory {
 public:
  RuleFactory(const Job& job, const FederatedAssembly& parts)
      : job_(job),
        federation_(parts.federation),
        privacy_(parts.privacy),
        round_(std::make_shared<int64_t>(0)) {}

  std::unique_ptr<ClientSampler> sampler() const;
  std::unique_ptr<ServerOptimizer> optimizer(int64_t n_params) const;
  // `participation`: the share of clients in a round.
  std::unique_ptr<Aggregator> aggregator(double participation) const;

 private:
  bool lies() const;
  std::vector<int64_t> attackers() const;

  const Job& job_;
  const Federation& federation_;
  const std::unique_ptr<PrivateTraining>& privacy_;
  std::shared_ptr<int64_t> round_;  // that the rules decide on
};

}  // namespace hanse
