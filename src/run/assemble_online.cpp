#include "assemble.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/experts.hpp"
#include "online_assembly.hpp"
#include "training_data.hpp"

namespace hanse {

namespace {

OnlineTrainer::Settings online_settings(const Job& job, int64_t nodes) {
  const OnlineOptions& online = job.online;
  return {.seed = static_cast<uint64_t>(job.run.seed),
          .peers = online.peers,
          .train_first = online.order == "train-then-predict",
          .score_estimates = online.variant == "corrected",
          .loss_scale = online.loss_scale,
          .c = online.c,
          .eta = online_eta(online, nodes, online.horizon),
          .stream = {.horizon = online.horizon, .drift = online.drift}};
}

}  // namespace

std::unique_ptr<Assembly> assemble_online(const Job& job, Communicator& comm) {
  auto assembly = std::make_unique<OnlineAssembly>(comm);
  load_samples_and_model(job, comm, *assembly);
  const Federation& federation = assembly->federation;
  Model& model = *assembly->model;
  agree_on(comm, [&] {
    assembly->experts = make_experts(job.online, federation.clients(), job.online.horizon);
    assembly->fit = make_stream_fit(job, federation, model);
    assembly->online =
        std::make_unique<OnlineTrainer>(OnlineTrainer::Parts{.comm = comm,
                                                             .federation = federation,
                                                             .model = model,
                                                             .rule = *assembly->experts,
                                                             .fit = *assembly->fit},
                                        online_settings(job, federation.clients()));
  });
  greet_training(job, comm, *assembly);
  return assembly;
}

}  // namespace hanse
