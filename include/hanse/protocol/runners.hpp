// The runners that can train the participants of a round, and what each of them can do.
//
// A runner computes: it holds the clients' models, trains them, and hands their updates to a sink,
// which sums them. Which one a run has decides its speed and the last bits of its results. Nothing
// outside knows what they can do: device_refusal() says so of the objects that were made for a job.
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
class HostSink;
struct SharedRows;

using RunnerPtr = std::shared_ptr<ClientRunner>;  // which deletes what is incomplete here

// Makes the sink of a host's runner: src/protocol/federated/host_sink.hpp.
struct RunnerParts;
using SinkMaker = std::unique_ptr<HostSink> (*)(const RunnerParts& parts,
                                                const FederatedSettings& settings, int64_t second,
                                                SharedRows& rows);

// What a runner works on; all that is referred to must outlive it.
struct RunnerParts {
  Communicator& comm;
  const Federation& federation;
  Model& model;
  LocalUpdate& update;
  AggregatorNeeds rule;
  Stages stages = {};
  LocalUpdate* tuner = nullptr;   // trains a client's model before it is evaluated; null: nobody
  SinkMaker make_sink = nullptr;  // null: the sink is the one that `rule` asks for. On hosts
};

// What ranks keep of each client between rounds for a rule with these needs, behind what the
// client's update keeps.
std::vector<StateBlock> rule_state_blocks(const AggregatorNeeds& needs,
                                          const ParameterLayout& layout);

// One client after the other in the host's memory, by LocalUpdate. It trains whatever a job can
// ask for.
RunnerPtr make_host_runner(const RunnerParts& parts, const FederatedSettings& settings);

// `cohorts->clients()` neighbours of the draw side by side on this rank's device. A cohort is the
// same whoever trains it, so that what a client is trained with does not depend on the number of
// ranks; the devices' sums are integers, so that who adds what does not matter either.
// REQUIRES: device_refusal() has nothing to say.
RunnerPtr make_cohort_runner(const RunnerParts& parts, const FederatedSettings& settings,
                             std::unique_ptr<CohortTraining> cohorts,
                             std::unique_ptr<DeviceCommunicator> devices);

// Something that GPUs cannot do: what, the option that asks for it, and what else to use.
struct Refusal {
  std::string what, key, hint;
};

// What a job's rounds need, by the objects that were made for it.
struct RoundNeeds {
  LocalUpdate& update;
  AggregatorNeeds rule;
  const FederatedSettings& settings;
  const ClientOptions& client;
  Compress compress = Compress::kNone;
  bool tunes = false;               // models before they are evaluated
  std::optional<Refusal> off_gpus;  // a chosen kind that GPUs do not train, by its row
  // What the user called them, for messages.
  std::string update_kind, rule_kind;
  LabelForm labels = {};
  bool moves_all = true;  // gradients train every value of the model
};

// The first of a job's needs that cohorts on devices cannot meet; none: it can train the job.
std::optional<Refusal> device_refusal(const RoundNeeds& needs);

// Does the model go back to the ranks part by part while its sum still comes? Not where the step
// may be taken back, nor where the server's optimizer needs all of it at once, nor where the sum is
// divided by another.
inline bool step_overlaps(const AggregatorNeeds& needs, const LocalUpdate& update,
                          const ServerOptions& server) {
  return needs.trials == 0 && !update.sends_direction() && !needs.sign_share &&
         server.own.path.empty();
}

}  // namespace hanse
