// The protocols' objects, each with what it needs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hanse/client/batch_trial.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/job/job.hpp"
#include "hanse/protocol/bandit.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/protocol/online.hpp"
#include "hanse/protocol/private_samples.hpp"
#include "hanse/protocol/private_training.hpp"
#include "hanse/protocol/statistics.hpp"
#include "hanse/protocol/update_stage.hpp"
#include "hanse/run/assembly.hpp"
#include "online_engine.hpp"
#include "virtual_time.hpp"

namespace hanse {

// Collective. `given`: see assemble(). Each throws AgreedError.
std::unique_ptr<Assembly> assemble_federated(const Job& job, Communicator& comm,
                                             const RankGpu* given);
std::unique_ptr<Assembly> assemble_online(const Job& job, Communicator& comm, const RankGpu* given);
std::unique_ptr<Assembly> assemble_bandit(const Job& job, Communicator& comm, const RankGpu* given);
std::unique_ptr<Assembly> assemble_statistics(const Job& job, Communicator& comm,
                                              const RankGpu* given);

// The objects of a federated job, or of a bound, which is one of a special kind.
struct FederatedAssembly final : Assembly {
  using Assembly::Assembly;
  Protocol& protocol() override { return *trainer; }
  std::function<void()> round_writer(const KeyedJob& job, const std::string& from,
                                     int64_t completed) override;
  void plan(const PlanCase& plan, PlanSheet& sheet) override;

  Job trained;  // the job as its clients train: that of bound_job() for a bound
  Job drawing;  // `trained` with the number that samplers draw; the rules' makers refer to it
  std::unique_ptr<LocalUpdate> update;
  std::unique_ptr<LocalUpdate> tuner;  // null: models are evaluated as they are
  std::vector<std::unique_ptr<UpdateStage>> update_stages;  // in their order
  Stages stages() const;                                    // those, borrowed
  int64_t state_width() const;                              // of a client, the rule's aside
  std::unique_ptr<Attackers> attackers;                     // null: all clients are honest
  std::unique_ptr<ClientSampler> sampler;                   // rank 0
  double participation = 1;                                 // share of clients in a round
  std::unique_ptr<Aggregator> aggregator;
  std::unique_ptr<ColumnFunction> own_columns;  // null: the rule has none
  std::unique_ptr<ServerOptimizer> optimizer;   // rank 0
  VirtualTime time;                             // rank 0
  std::unique_ptr<PrivateTraining> privacy;     // null: rounds are not private for clients
  std::unique_ptr<PrivateSamples> samples;      // null: steps of clients are not private
  std::unique_ptr<RoundPart> extrapolation;     // of the server's step; null: none
  std::unique_ptr<RoundPart> masks;             // of the sum; null: none
  std::unique_ptr<RoundPart> stacking;          // of adapters; null: none
  std::unique_ptr<RoundPart> clusters;          // of clients, with copies of tensors; null: none
  std::vector<RoundPart*> acting() const;       // on the sum of each round, borrowed
  VirtualTime make_time() const;                // a clock that has not begun
  std::unique_ptr<FederatedTrainer> trainer;
};

// The objects of an online job.
struct OnlineAssembly final : Assembly {
  using Assembly::Assembly;
  Protocol& protocol() override { return *online; }
  void plan(const PlanCase& plan, PlanSheet& sheet) override;

  std::unique_ptr<ExpertRule> experts;
  OnlineEngine engine;
  std::unique_ptr<OnlineTrainer> online;
};

// The objects of a job of bandits.
struct BanditAssembly final : Assembly {
  using Assembly::Assembly;
  Protocol& protocol() override { return *bandit; }
  void plan(const PlanCase& plan, PlanSheet& sheet) override;

  std::unique_ptr<BanditProtocol> bandit;
};

// The objects of a job of statistics.
struct StatisticsAssembly final : Assembly {
  using Assembly::Assembly;
  Protocol& protocol() override { return *statistics; }
  // statistics.json, and a CSV file for each table of each statistic.
  std::vector<ResultFile> result_files() const override;
  std::string table() const override;
  void plan(const PlanCase& plan, PlanSheet& sheet) override;

  std::unique_ptr<StatisticsProtocol> statistics;
};

// For protocols that train models: sets the ranks' threads, and fills federation, model, files and
// greeting. Collective. Throws AgreedError.
void load_samples_and_model(const Job& job, Communicator& comm, Assembly& assembly);

// Loads LibTorch where the job uses it, which takes time and memory. Throws InvalidArgument.
void load_libraries(const Job& job);

// Tries the batches that the job will have, each on one rank, where the model comes from a file:
// the program's own take any number of samples. Collective. Throws AgreedError.
void try_batches(const std::vector<BatchTrial>& trials, Communicator& comm, Assembly& assembly);

// What happens to a model's buffers, in one line; empty when it has none.
std::string buffers_text(const ParameterLayout& layout);

}  // namespace hanse
