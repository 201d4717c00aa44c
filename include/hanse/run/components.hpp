// The objects of a job, put together.
#pragma once

#include <memory>

#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/bandit.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/protocol/online.hpp"
#include "hanse/run/job.hpp"

namespace hanse {

// One rank's objects of a job. Members hold references to each other: it stays in place.
struct Components {
  // Collective. Reads the data, builds model, rules and trainer; agrees on whatever is wrong.
  // Throws AgreedError.
  Components(const Job& job, Communicator& comm);
  Components(const Components&) = delete;
  Components& operator=(const Components&) = delete;

  std::unique_ptr<Communicator> host;
  Federation federation;
  std::unique_ptr<Model> model;
  std::string model_file_digest;  // of model.path; empty: the model has no file
  Protocol* protocol = nullptr;   // the one of run.protocol, below

  // run.protocol = federated, and its bounds centralized and local; else null.
  ClientOptions client;  // as the clients train
  std::unique_ptr<LocalUpdate> update;
  std::unique_ptr<ClientSampler> sampler;      // rank 0
  std::unique_ptr<Availability> availability;  // rank 0; null: everyone is always there
  double participation = 1;                    // share of clients in a round
  std::unique_ptr<Aggregator> aggregator;
  std::unique_ptr<ServerOptimizer> optimizer;  // rank 0
  std::unique_ptr<FederatedTrainer> trainer;

  std::unique_ptr<BanditProtocol> bandit;  // run.protocol = bandit; else null

  // run.protocol = online; else null.
  std::unique_ptr<ExpertRule> experts;
  std::unique_ptr<StreamFit> fit;
  std::unique_ptr<OnlineTrainer> online;

 private:
  void build_model(const Job& job, Communicator& comm);
  void build_online(const Job& job, Communicator& comm);
  void build_federated(const Job& job, Communicator& comm);
};

// Collective. All ranks must have the same text; throws AgreedError that says `what` differs.
void require_same(Communicator& comm, const std::string& what, const std::string& text,
                  const std::string& hint);

}  // namespace hanse
