#include "online_engine.hpp"

#include <algorithm>
#include <optional>

#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/experts.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/protocol/stream.hpp"
#include "hanse/run/engine_choice.hpp"

namespace hanse {

namespace {

// Why GPUs cannot run these nodes; none: they can.
std::optional<Refusal> online_refusal(const Job& job, const Assembly& assembly) {
  if (auto kind = kind_off_gpus(job)) return kind;
  if (auto labels = labels_off_gpus(assembly.federation.label_form())) return labels;
  if (job.online.gamma == NodeEstimate::kSgd) return std::nullopt;
  return Refusal{"ridge regressions are not fitted on GPUs", "online.gamma", "use sgd"};
}

}  // namespace

OnlineEngine choose_online_engine(const Job& job, Communicator& comm, const Assembly& assembly) {
  const Federation& federation = assembly.federation;
  const int64_t batch = Stream::largest_batch(federation, job.online.horizon);
  std::optional<Refusal> refusal;
  agree_on(comm, [&] { refusal = online_refusal(job, assembly); });
  const int64_t nodes = federation.clients(), ranks = comm.size();
  const int64_t clients = side_by_side(job, nodes, assembly.model->n_params());
  RankDevice device = choose_device(
      job, refusal, {assembly.model->gradient_flops(), batch, clients}, comm, *assembly.host);
  OnlineEngine engine;
  make_on_device(job, device, comm, [&] {
    if (device.name.empty()) return;
    engine.on_device = std::make_unique<CohortNodes>(
        *assembly.model, federation, job.model,
        CohortNodesSettings{.device = device.name,
                            .clients = clients,
                            .batch = batch,
                            .nodes = (nodes + ranks - 1) / ranks,
                            .steps = job.online.steps,
                            .lr = job.online.lr,
                            .step = {.rows = job.online.batch},
                            .graphs = job.run.device_graphs == DeviceGraphs::kAuto,
                            .part = assembly.part});
    engine.mix_rows = [name = device.name](auto weights, auto rows, int64_t n, auto out) {
      torch_library().mix_rows_on(name, weights, rows, n, out);
    };
  });
  if (device.name.empty()) {
    agree_on(comm, [&] { engine.on_host = make_stream_fit(job, federation, *assembly.model); });
  }
  engine.trained_on = device.kind;
  return engine;
}

}  // namespace hanse
