#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "assemble.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/client/cohort_nodes.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/experts.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/protocol/online.hpp"
#include "hanse/run/engine.hpp"
#include "plan/measure.hpp"

namespace hanse {

namespace {

constexpr double kOnlineRounds_s = 5;  // of a plan

struct OnlineAssembly final : Assembly {
  using Assembly::Assembly;
  Protocol& protocol() override { return *online; }
  void plan(const PlanCase& plan, PlanSheet& sheet) override;

  std::unique_ptr<ExpertRule> experts;
  std::unique_ptr<StreamFit> fit;          // null on GPUs
  std::unique_ptr<CohortNodes> on_device;  // null on CPUs
  RowMixer mix_rows = hanse::mix_rows;
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

int64_t largest_stream_batch(const Federation& federation, int64_t horizon) {
  int64_t most = 1;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    most = std::max(most, (federation.train(client).size() + horizon - 1) / horizon);
  }
  return most;
}

// Why GPUs cannot run these nodes; none: they can.
std::optional<Refusal> online_refusal(const Job& job, const OnlineAssembly& assembly) {
  if (auto kind = kind_off_gpus(job)) return kind;
  const LabelForm labels = assembly.federation.label_form();
  if (labels.values > 1 || labels.multi_label) {
    return Refusal{"a label of several values is not trained on GPUs", "data.kind",
                   "use data with one label a sample"};
  }
  const ParameterLayout& layout = assembly.model->layout();
  if (layout.n_trainable() < layout.n_params()) {
    return Refusal{"a model with buffers or frozen parameters is not trained on GPUs", "model.path",
                   "use group norm, which has no buffers"};
  }
  if (job.online.gamma == "sgd") return std::nullopt;
  return Refusal{"ridge regressions are not fitted on GPUs", "online.gamma", "use sgd"};
}

// The nodes' steps, comparisons and mixtures on GPUs, where run.device chooses them.
void choose_device_of(const Job& job, Communicator& comm, OnlineAssembly& assembly) {
  const Federation& federation = assembly.federation;
  const int64_t batch = largest_stream_batch(federation, job.online.horizon);
  std::optional<Refusal> refusal;
  agree_on(comm, [&] { refusal = online_refusal(job, assembly); });
  const RankDevice device =
      choose_device(job, refusal, {assembly.model->gradient_flops(), batch}, comm, *assembly.host);
  assembly.trained_on = device.kind;
  if (device.name.empty()) return;
  const int64_t nodes = federation.clients(), ranks = comm.size();
  agree_on(comm, [&] {
    assembly.on_device =
        std::make_unique<CohortNodes>(*assembly.model, federation, job.model,
                                      CohortNodesSettings{.device = device.name,
                                                          .clients = side_by_side(job, nodes),
                                                          .batch = batch,
                                                          .nodes = (nodes + ranks - 1) / ranks,
                                                          .steps = job.online.steps,
                                                          .lr = job.online.lr,
                                                          .step = {.rows = job.online.batch}});
    assembly.mix_rows = [name = device.name](auto weights, auto rows, int64_t n, auto out) {
      torch_library().mix_rows_on(name, weights, rows, n, out);
    };
  });
}

OnlineTrainer::Settings online_settings(const Job& job, int64_t nodes) {
  const OnlineOptions& online = job.online;
  return {.seed = static_cast<uint64_t>(job.run.seed),
          .model_seed = seed_of(job, job.model.seed),
          .peers = online.peers,
          .train_first = online.order == "train-then-predict",
          .score_estimates = online.variant == "corrected",
          .in_place = online.mixing == "in-place",
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
  choose_device_of(job, comm, *assembly);
  CohortNodes* const nodes = assembly->on_device.get();
  agree_on(comm, [&] {
    assembly->experts = make_experts(job.online, federation.clients(), job.online.horizon);
    if (!nodes) assembly->fit = make_stream_fit(job, federation, *assembly->model);
    assembly->online = std::make_unique<OnlineTrainer>(
        OnlineTrainer::Parts{.comm = comm,
                             .federation = federation,
                             .model = nodes ? nodes->model() : *assembly->model,
                             .rule = *assembly->experts,
                             .fit = nodes ? nodes->fit() : *assembly->fit,
                             .mix_rows = assembly->mix_rows},
        online_settings(job, federation.clients()));
  });
  if (assembly->files.contains("model.path")) {
    try_batches(stream_trials(federation, job.online.horizon, job.online.batch), comm, *assembly);
  }
  return assembly;
}

}  // namespace hanse
