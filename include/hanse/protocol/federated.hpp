// Rounds of federated training: the server draws, clients train, one reduction brings the weighted
// sum, the server steps.
//
// All ranks build one FederatedTrainer and call its methods together. Rank 0 holds the decisions
// and the model; it sees losses, norms and the sum, never a participant's vector (with two or more
// participants). The result does not depend on the number of ranks or on who trains whom.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/base/state.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/protocol/attackers.hpp"
#include "hanse/protocol/engines.hpp"
#include "hanse/protocol/federated_settings.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/protocol/turnout.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/own_columns.hpp"
#include "hanse/rules/sampling/availability.hpp"
#include "hanse/rules/sampling/sampler.hpp"
#include "hanse/rules/told.hpp"

namespace hanse {

class ClientRunner;
class ColumnStepping;
class Findings;
class KeptVersions;
class RoundAccount;
class RoundPlan;
class Server;
class Weighing;
enum class PlanMessage : int64_t;
struct RoundContext;
struct SumStep;
struct TaskStarts;

// The numbers that the rules got in a round; rank 0, in the draw's order.
struct RoundTrace {
  bool everyone_there = true;
  std::vector<int64_t> available;  // empty: all
  std::vector<double> a_of_all;    // [M] a_m, when the sampler asked for them
  Draw draw;
  std::vector<int64_t> candidates;  // when the sampler asked for their losses
  std::vector<double> candidate_losses;
  OwnedReport<Feedback> feedback;   // the sampler's
  OwnedReport<RoundReport> report;  // the aggregator's, with the permutation that it drew
  std::size_t further = 0;          // A rows of the Gram matrix beside the participants'
};

// The server's own update, from data that it trusts: writes what training from `model` [P] adds to
// it in this round. Pure.
using ServerUpdate =
    std::function<void(int64_t round, std::span<const float> model, std::span<float> update)>;

class FederatedTrainer final : public Protocol {
 public:
  // The objects that the trainer works with. All but `runner` and `times`, which it owns, must
  // outlive it. The trainer alone calls them while it lives; over `comm` and `host` no other call
  // may be under way.
  struct Parts {
    Communicator& comm;
    Communicator& host;  // comm.split(kByHost)
    const Federation& federation;
    Model& model;
    LocalUpdate& update;
    ClientSampler* sampler;  // rank 0; null elsewhere
    Aggregator& aggregator;
    ServerOptimizer* optimizer;      // rank 0; null elsewhere
    Availability availability = {};  // rank 0
    RunnerPtr runner = nullptr;      // null: make_host_runner(), with `stages`
    Stages stages = {};              // the runner's
    LocalUpdate* tuner = nullptr;    // trains a client's model before it is evaluated; null: nobody
    Turnout* turnout = nullptr;      // rank 0; null: all who are drawn take part
    Attackers* attackers = nullptr;  // null: all participants are honest
    ServerUpdate root = nullptr;     // rank 0, for rules with ExtraRow::kServer
    ColumnFunction* own_columns = nullptr;  // every rank, for rules with own_columns
    std::vector<RoundPart*> acting = {};    // the runner's
  };
  using Settings = FederatedSettings;

  // Collective over parts.comm. Memory: the model's row, a second with settings.server.average, and
  // the runner's.
  FederatedTrainer(Parts parts, Settings settings);
  ~FederatedTrainer() override;

  void initialize_model() override;
  RoundRecord round(bool stop_requested) override;

  EvaluationTable evaluate() override;
  Metrics metrics() const override;
  std::vector<double> decision() const override;
  std::vector<TableLines> take_lines() override;
  std::string end() const override;
  std::string remark() const override;

  std::span<const float> model_row() const override { return theta_; }
  ParameterLayout model_layout() const override { return parts_.model.layout(); }
  std::span<const float> averaged_row() const override { return average_; }

  // The trace of the last round, with settings.trace. Rank 0.
  const RoundTrace& trace() const;

  void collect() override;
  void resume(const State& state) override;
  ClientStateStore* client_states() override;
  bool keeps_state_of(int64_t client) const override;

 private:
  void visit(StateFields& fields) override;
  void share_model();
  bool draw();
  PlanMessage take_draw();
  void train(Findings& findings);
  RoundRecord report(Findings& findings, bool stop_requested);
  void step(const Findings& findings, RoundRecord& record);
  SumStep prepare_step(const Findings& findings, std::span<const float> second_row,
                       RoundRecord& record);
  void backtrack(std::span<const float> before, bool failed);
  RoundContext context();
  ClientRunner& runner() { return *parts_.runner; }

  Parts parts_;
  Settings settings_;
  AggregatorNeeds needs_;
  std::unique_ptr<RoundPlan> plan_;                  // who trains whom
  std::unique_ptr<Server> server_;                   // rank 0; null elsewhere
  std::unique_ptr<ColumnStepping> column_stepping_;  // null: the rule needs none
  std::unique_ptr<RoundTrace> trace_;                // rank 0's; null: nobody asks for it
  std::vector<std::unique_ptr<RoundPart>> made_;
  std::vector<RoundPart*> acting_;          // these, and the assembly's
  std::unique_ptr<Weighing> weighing_;      // what updates count
  std::unique_ptr<RoundAccount> account_;   // time and bytes of the round in progress
  std::unique_ptr<KeptVersions> versions_;  // null: all start from the newest model
  std::unique_ptr<TaskStarts> starts_;      // of the round
  std::shared_ptr<std::byte> model_memory_;
  std::span<float> theta_;        // [P] the model
  AlignedFloats average_;         // [P] mean of the models behind all rounds; empty: not kept
  Metrics evaluated_;             // its metrics, and those on the common test set; rank 0
  std::vector<float> control_;    // [control width] the server's variate; empty: none returns
  bool model_is_shared_ = false;  // all ranks have rank 0's model
  bool has_stood_ = false;        // backtrack() found no step, and said so
};

}  // namespace hanse
