#include "hanse/protocol/online.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "assemble.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/kinds/experts.hpp"
#include "online_engine.hpp"

namespace hanse {

namespace {

OnlineTrainer::Settings online_settings(const Job& job, int64_t nodes) {
  const OnlineOptions& online = job.online;
  return {.seed = static_cast<uint64_t>(job.run.seed),
          .model_seed = seed_of(job, job.model.seed),
          .peers = online.peers,
          .train_first = online.order == OnlineOrder::kTrainThenPredict,
          .score_estimates = online.variant == ExpertLosses::kCorrected,
          .in_place = online.mixing == MixingOrder::kInPlace,
          .lr = online.lr,
          .loss_scale = online.loss_scale,
          .c = online.c,
          .eta = online_eta(online, nodes, online.horizon),
          .asked = asked_of(job),
          .stream = {.horizon = online.horizon, .passes = online.passes, .drift = online.drift}};
}

// Throws InvalidArgument where a rank has no room for all models, twice, and for the losses and
// weights of all pairs of nodes.
void check_memory(int64_t nodes, int64_t n_params) {
  const auto n = static_cast<double>(nodes), p = static_cast<double>(n_params);
  require_planned_memory(
      2 * n * (sizeof(float) * p + sizeof(double) * n),
      fmt::format("{} models of {} parameters, and the numbers of each pair of nodes, take", nodes,
                  n_params),
      "federation.clients", "use fewer nodes, or a smaller model");
}

}  // namespace

std::unique_ptr<Assembly> assemble_online(const Job& job, Communicator& comm,
                                          const RankGpu* given) {
  auto assembly = std::make_unique<OnlineAssembly>(comm);
  load_samples_and_model(job, comm, *assembly);
  const Federation& federation = assembly->federation;
  agree_on(comm, [&] { check_memory(federation.clients(), assembly->model->n_params()); });
  assembly->engine = choose_online_engine(job, comm, given, *assembly);
  const OnlineEngine& engine = assembly->engine;
  agree_on(comm, [&] {
    assembly->experts = make_experts(job.online, federation.clients(), job.online.horizon);
    assembly->online = std::make_unique<OnlineTrainer>(
        OnlineTrainer::Parts{.comm = comm,
                             .federation = federation,
                             .model = engine.model(*assembly->model),
                             .rule = *assembly->experts,
                             .fit = engine.fit(),
                             .mix_rows = engine.mix_rows},
        online_settings(job, federation.clients()));
  });
  if (assembly->files.contains("model.path")) {
    try_batches(stream_trials(federation, job.online.horizon, job.online.batch), comm, *assembly);
  }
  return assembly;
}

}  // namespace hanse
