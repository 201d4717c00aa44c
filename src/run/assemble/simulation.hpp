// Runs whose clients are not trained, on machines that are not there: simulate.sample-us.
#pragma once

#include <memory>
#include <string>

#include "hanse/base/simulated_time.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/federated_settings.hpp"

namespace hanse {

struct Job;

// Is no client trained?
bool is_simulated(const Job& job);

// Puts the ranks of `comm`, which must outlive it, on the machines of the job while it lives.
class SimulatedRanks {
 public:
  // Collective. Throws AgreedError when there are more hosts than ranks.
  SimulatedRanks(const Job& job, Communicator& comm);
  Communicator& comm() { return *comm_; }

 private:
  SimulatedTime time_;
  std::unique_ptr<Communicator> comm_;
};

// `inner` simulated on so many ranks where the job is; else itself.
std::unique_ptr<LocalUpdate> as_simulated(std::unique_ptr<LocalUpdate> inner, const Job& job,
                                          const Federation& federation, int64_t ranks);

// The machines decide whether rank 0 trains, and who trains whom is planned: a queue would ask who
// is free here. Where costs are known, as they are, both end in the same.
void plan_as_simulated(const Job& job, FederatedSettings& settings);

// What the user should know at the start; empty where the job is not simulated.
std::string simulation_notice(const Job& job, int64_t ranks);

}  // namespace hanse
