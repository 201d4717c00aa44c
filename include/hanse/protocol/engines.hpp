// The runners that can train the participants of a round, and what each of them can do.
//
// A runner computes: it holds the clients' models, trains them, and hands their updates to a sink,
// which sums them. The choice of the runner decides the speed of a run and the last bits of its
// results.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hanse/client/cohort_training.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/device_communicator.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/protocol/compression_options.hpp"
#include "hanse/protocol/federated_settings.hpp"
#include "hanse/protocol/update_stage.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

class ClientRunner;
class FrozenCache;
class RoundPart;

using RunnerPtr = std::shared_ptr<ClientRunner>;  // shared: incomplete in this header

// The objects that a runner works on, which must outlive it.
struct RunnerParts {
  Communicator& comm;
  const Federation& federation;
  Model& model;
  LocalUpdate& update;
  AggregatorNeeds rule;
  Stages stages = {};
  LocalUpdate* tuner = nullptr;  // trains a client's model before it is evaluated; null: nobody
  std::vector<RoundPart*> acting = {};  // on the sum, in this order; one at most takes updates. On
                                        // exact sums
  const PartModel* part = nullptr;      // what `model` is where clients train a part of a network
  FrozenCache* frozen = nullptr;        // what cohorts have of the samples; null: them themselves
};

// The state that ranks keep for each client between rounds for a rule with these needs, behind the
// state of the client's update.
std::vector<StateBlock> rule_state_blocks(const AggregatorNeeds& needs,
                                          const ParameterLayout& layout);

// Does a round look at the entries of each update, or change the sum, in the host's memory? Then
// what devices have trained goes there, a row a participant: stages and parts, the rows of rules by
// columns and of attackers, and what a rule keeps of each client are one piece of code, whose bits
// are those of a CPU's run. Otherwise updates and their sum stay on the devices: rules that weigh
// by inner products get no more than these.
inline bool sums_on_host(const RunnerParts& parts) {
  const AggregatorNeeds& rule = parts.rule;
  const bool looks = rule.columns || rule.own_columns || rule.forging_rows > 0 ||
                     rule.extra_row != ExtraRow::kNone;
  const bool keeps = rule.last_updates || rule.sign_share.has_value();
  return looks || keeps || !parts.stages.updates.empty() || !parts.acting.empty();
}

// Trains one client after the other in the host's memory, by LocalUpdate: whatever a job can ask
// for.
RunnerPtr make_host_runner(const RunnerParts& parts, const FederatedSettings& settings);

// Trains `cohorts->clients()` neighbours of the draw side by side on this rank's device. A cohort
// is the same whoever trains it, so that a client's training does not depend on the number of
// ranks; sums are integers, so that the order of addition does not matter either.
// `tuning`: one client's place, by the options of parts.tuner; null where nobody is tuned.
// REQUIRES: what GPUs can do (kinds/conflicts.hpp).
RunnerPtr make_cohort_runner(const RunnerParts& parts, const FederatedSettings& settings,
                             std::unique_ptr<CohortTraining> cohorts,
                             std::unique_ptr<DeviceCommunicator> devices,
                             std::unique_ptr<CohortTraining> tuning = nullptr);

// Does the model go back to the ranks part by part while its sum still comes? Not if the step may
// be taken back, the server's step needs the whole sum at once, or another sum divides it.
inline bool step_overlaps(const AggregatorNeeds& needs, const LocalUpdate& update,
                          const ServerOptions& server) {
  return needs.trials == 0 && !update.sends_direction() && !needs.sign_share &&
         server.own.path.empty() && !server.extrapolate;
}

}  // namespace hanse
