// One rank's objects of a federated training, for tests.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "hanse/client/local_update.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/protocol/private_training.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/sampling/availability.hpp"

namespace hanse {

// A test derives from it, sets what its training differs in and calls start().
template <class AModel = Model, class AnUpdate = LocalUpdate, class ARule = Aggregator>
struct TrainerFixture {
  // The settings take part of all clients for granted. `apart`: every rank has a host of its own.
  template <class Load>
  TrainerFixture(Communicator& all, const Load& load, bool apart = false)
      : comm(all),
        host(apart ? make_single_communicator() : all.split(kByHost)),
        federation(load(*host)) {
    settings.max_participants = federation.clients();
  }

  TrainerFixture(const TrainerFixture&) = delete;
  TrainerFixture& operator=(const TrainerFixture&) = delete;

  // Makes the trainer, with settings.server's optimizer where none is set, and initializes its
  // model. Sampler, availability and optimizer stay on rank 0 alone. Again: a new trainer of what
  // has been set since. Collective.
  void start() {
    const bool serves = comm.rank() == 0;
    if (!serves) sampler.reset();
    if (!serves) optimizer.reset();
    if (!serves) availability = {};
    if (!serves) turnout.reset();
    if (serves && !optimizer) optimizer = make_server_optimizer(settings.server, model->n_params());
    acting.clear();
    for (RoundPart* part : {static_cast<RoundPart*>(privacy.get()), round_part.get()}) {
      if (part != nullptr) acting.push_back(part);
    }
    trainer =
        std::make_unique<FederatedTrainer>(FederatedTrainer::Parts{.comm = comm,
                                                                   .host = *host,
                                                                   .federation = federation,
                                                                   .model = *model,
                                                                   .update = *update,
                                                                   .sampler = sampler.get(),
                                                                   .aggregator = *aggregator,
                                                                   .optimizer = optimizer.get(),
                                                                   .availability = availability,
                                                                   .runner = std::move(runner),
                                                                   .stages = stages,
                                                                   .tuner = tuner.get(),
                                                                   .turnout = turnout.get(),
                                                                   .attackers = attackers.get(),
                                                                   .root = root,
                                                                   .own_columns = own_columns.get(),
                                                                   .acting = acting},
                                           settings);
    trainer->initialize_model();
  }

  Communicator& comm;
  std::unique_ptr<Communicator> host;
  Federation federation;
  std::unique_ptr<AModel> model;
  std::unique_ptr<AnUpdate> update;
  std::unique_ptr<ARule> aggregator;
  std::unique_ptr<ClientSampler> sampler;
  std::unique_ptr<ServerOptimizer> optimizer;
  std::unique_ptr<RoundPart> round_part;
  std::vector<RoundPart*> acting;
  Availability availability;
  RunnerPtr runner;
  Stages stages;
  std::unique_ptr<LocalUpdate> tuner;
  std::unique_ptr<Turnout> turnout;
  std::unique_ptr<Attackers> attackers;
  ServerUpdate root;
  std::unique_ptr<ColumnFunction> own_columns;
  std::unique_ptr<PrivateTraining> privacy;
  FederatedSettings settings;
  std::unique_ptr<FederatedTrainer> trainer;
};

}  // namespace hanse
