#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "assemble.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/kinds/experts.hpp"
#include "hanse/protocol/online.hpp"
#include "online_engine.hpp"
#include "plan/measure.hpp"

namespace hanse {

namespace {

constexpr double kOnlineRounds_s = 5;  // of a plan

struct OnlineAssembly final : Assembly {
  using Assembly::Assembly;
  Protocol& protocol() override { return *online; }
  void plan(const PlanCase& plan, PlanSheet& sheet) override;

  std::unique_ptr<ExpertRule> experts;
  OnlineEngine engine;
  std::unique_ptr<OnlineTrainer> online;
};

// The second round is timed, for the first warms caches; the planned ranks share its work.
void OnlineAssembly::plan(const PlanCase& plan, PlanSheet& sheet) {
  const int64_t nodes = federation.clients();
  const int64_t ranks = plan.planned.ranks;
  agree_on(plan.comm, [&] {
    if (plan.options.gpu_tflops == 0) return;
    throw InvalidArgument("rounds of online nodes are not estimated for GPUs", "run.protocol",
                          "plan without --gpu-tflops");
  });
  online->initialize_model();
  const RoundMeans means = time_rounds(*online, kOnlineRounds_s,
                                       std::min<int64_t>(2, plan.job.online.horizon), plan.comm);
  const double round_s = shared_s(plan.planned, means.train_s * plan.comm.size(), nodes, ranks);
  const RoundFootprint footprint = online->footprint(ranks);
  sheet.add("parameters", "parameters of a model", model->n_params());
  sheet.add("nodes", "nodes", nodes);
  sheet.add("train_samples", "training samples", federation.train_samples());
  sheet.add("batches", "batches a stream", plan.job.online.horizon);
  sheet.line("ranks, of which host nodes", fmt::format("{}, {}", ranks, std::min(ranks, nodes)));
  sheet.field("ranks", ranks);
  sheet.add("data_bytes", "data a host, shared", number(federation.bytes()));
  sheet.add("rows_bytes", "model rows a rank", footprint.memory_bytes_of("model rows"));
  if (const double ridge = footprint.memory_bytes_of("ridge regressions"); ridge > 0) {
    sheet.add("ridge_bytes", "ridge regressions a rank", ridge);
  }
  sheet.add("sent_bytes", "sent a round", footprint.bytes_sent());
  sheet.add("messages", "messages a round", int64_t{std::llround(footprint.messages())});
  sheet.add("train_seconds", "a round's work, estimated", round_s);
  sheet.line("the run's work, estimated", duration_text(round_s * number(plan.job.run.rounds)));
}

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
