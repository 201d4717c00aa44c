#include "hanse/protocol/online.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "assemble.hpp"
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

}  // namespace

std::unique_ptr<Assembly> assemble_online(const Job& job, Communicator& comm) {
  auto assembly = std::make_unique<OnlineAssembly>(comm);
  load_samples_and_model(job, comm, *assembly);
  const Federation& federation = assembly->federation;
  assembly->engine = choose_online_engine(job, comm, *assembly);
  assembly->trained_on = assembly->engine.trained_on;
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
