#include "online_engine.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/experts.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/protocol/stream.hpp"
#include "hanse/run/engine_choice.hpp"

namespace hanse {

OnlineEngine choose_online_engine(const Job& job, Communicator& comm, const RankGpu* given,
                                  Assembly& assembly) {
  const Federation& federation = assembly.federation;
  const int64_t batch = Stream::largest_batch(federation, job.online.horizon);
  const int64_t nodes = federation.clients(), ranks = comm.size();
  const int64_t clients = side_by_side(job, nodes, assembly.model->n_params());
  Engine chosen = choose_engine(job, why_one_by_one_on_gpus(job, std::nullopt),
                                {assembly.model->gradient_flops(), batch, clients}, comm,
                                *assembly.host, given);
  RankGpu& device = chosen.device;
  move_model(job, chosen, comm, assembly);
  OnlineEngine engine;
  make_on_device(job, device, comm, [&] {
    if (!chosen.has_cohorts()) return;
    engine.on_device =
        std::make_unique<CohortNodes>(*assembly.model, federation, job.model,
                                      CohortNodesSettings{.device = device.name,
                                                          .clients = clients,
                                                          .batch = batch,
                                                          .nodes = (nodes + ranks - 1) / ranks,
                                                          .steps = job.online.steps,
                                                          .lr = job.online.lr,
                                                          .step = {.rows = job.online.batch},
                                                          .starts = kernel_starts(job),
                                                          .part = assembly.part});
    engine.mix_rows = [name = device.name](auto weights, auto rows, int64_t n, auto out) {
      torch_library().mix_rows_on(name, weights, rows, n, out);
    };
  });
  if (!chosen.on_gpu()) engine = {};  // some rank has no room there
  if (!engine.on_device) {
    agree_on(comm, [&] { engine.on_host = make_stream_fit(job, federation, *assembly.model); });
  }
  assembly.trained_on = device.kind;
  return engine;
}

}  // namespace hanse
