// The objects of a federated job, or of a bound, which is one of a special kind.
#pragma once

#include "hanse/client/local_update.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

struct FederatedAssembly final : Assembly {
  using Assembly::Assembly;
  Protocol& protocol() override { return *trainer; }
  std::unique_ptr<RoundWriter> write_rounds(const KeyedJob& job, const std::string& from,
                                            int64_t completed) override;

  ClientOptions client;  // as the clients train
  std::unique_ptr<LocalUpdate> update;
  std::unique_ptr<ClientSampler> sampler;      // rank 0
  std::unique_ptr<Availability> availability;  // rank 0; null: everyone is always there
  double participation = 1;                    // share of clients in a round
  std::unique_ptr<Aggregator> aggregator;
  std::unique_ptr<ServerOptimizer> optimizer;  // rank 0
  std::unique_ptr<FederatedTrainer> trainer;
  bool traced = false;  // write_rounds() writes traces
};

}  // namespace hanse
