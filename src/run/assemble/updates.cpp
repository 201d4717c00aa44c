#include "updates.hpp"

#include <utility>
#include <vector>

#include "federated_checks.hpp"
#include "hanse/client/ranked_adapters.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/kinds/adapter_ranks.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/protocol/clusters.hpp"
#include "hanse/protocol/worker_momentum.hpp"
#include "protocols.hpp"
#include "results/facts.hpp"
#include "simulation.hpp"

namespace hanse {

namespace {

// Gives clients the ranks of client.lora-ranks.
std::unique_ptr<LocalUpdate> with_ranks(std::unique_ptr<LocalUpdate> update,
                                        const FederatedAssembly& parts) {
  const ClientOptions& client = parts.trained.client;
  if (client.lora_ranks.empty()) return update;
  return make_ranked(std::move(update),
                     read_adapter_ranks(client.lora_ranks, parts.federation.clients(),
                                        parts.federation.names().clients, client.lora.value),
                     parts.model->layout());
}

void make(const AggregatorNeeds& rule, Communicator& comm, FederatedAssembly& parts) {
  const Job& job = parts.trained;
  const Federation& federation = parts.federation;
  Model& model = *parts.model;
  auto update = with_ranks(make_update(job, federation, model, rule), parts);
  if (parts.clustered != nullptr) {
    parts.clusters = make_clusters({.comm = comm,
                                    .federation = federation,
                                    .model = *parts.clustered,
                                    .update = dynamic_cast<ClusteredUpdate&>(*update),
                                    .seed = seed_of(job, job.client.seed),
                                    .loss_batches = loss_batches(job.aggregator.loss)});
  }
  parts.update = as_simulated(std::move(update), job, federation, comm.size());
  parts.tuner = make_tuner(job, federation, model);
  parts.update_stages.push_back(make_worker_momentum(job.client.worker_momentum, model.layout()));
  parts.update_stages.push_back(make_replacement(job, federation.clients()));
  parts.update_stages.push_back(make_compression(job.compression, model.layout()));
  std::erase(parts.update_stages, nullptr);
  require_state_room(parts.state_width(), federation.clients(), comm.size(),
                     job.client.state_memory << 20, job.run.out);
  check_time_limit(job, model.layout());
  if (rule.extra_row == ExtraRow::kServer) check_root(job, federation);
  check_buffers(job, model.layout(), rule.after_training() || parts.update->sends_direction());
}

}  // namespace

void take_objective(const Job& job, Communicator& comm, FederatedAssembly& parts) {
  const std::string& path = job.client.objective;
  Model& network = parts.network();
  agree_on(comm, [&] { take_update_loss(job, network); });
  if (own_loss_key(job.client).empty()) return;
  if (path.empty()) {
    return agree_on(comm, [&] { smooth_labels(network, job.client.label_smoothing); });
  }
  agree_on(comm, [&] { train_for(network, path, parts.federation.label_form()); });
  note_file("client.objective", path, comm, parts);
}

void make_updates(const AggregatorNeeds& rule, Communicator& comm, FederatedAssembly& parts) {
  agree_on(comm, [&] { make(rule, comm, parts); });
  const std::string& ranks = parts.trained.client.lora_ranks;
  if (!ranks.empty()) note_file("client.lora-ranks", ranks, comm, parts);
}

}  // namespace hanse
