// What online nodes need, and what federated bandits need.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "assemble/assemble.hpp"
#include "hanse/base/progress.hpp"
#include "machines.hpp"
#include "measure.hpp"

namespace hanse {

namespace {

constexpr double kRounds_s = 5;

}  // namespace

// The second round is timed, for the first warms caches; the planned ranks share its work.
void OnlineAssembly::plan(const PlanCase& plan, PlanSheet& sheet) {
  const int64_t nodes = federation.clients();
  const int64_t ranks = plan.planned.ranks;
  online->initialize_model();
  const RoundMeans means =
      time_rounds(*online, kRounds_s, std::min<int64_t>(2, plan.job.online.horizon), plan.comm);
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
  sheet.add("pairs_bytes", "losses and weights of pairs a rank",
            footprint.memory_bytes_of("losses and weights"));
  const int64_t pass = plan.comm.allreduce_one(model->pass_bytes(), ReduceOp::kMax);
  if (pass > 0) sheet.add("pass_bytes", "tensors of the network's passes a rank", number(pass));
  if (const double ridge = footprint.memory_bytes_of("ridge regressions"); ridge > 0) {
    sheet.add("ridge_bytes", "ridge regressions a rank", ridge);
  }
  sheet.add("sent_bytes", "sent a round", footprint.bytes_sent());
  sheet.add("messages", "messages a round", int64_t{std::llround(footprint.messages())});
  if (compares_models(experts->exchange())) {
    sheet.add("losses", "losses a round, of all models on all batches", nodes * nodes);
  }
  sheet.add("train_seconds", "a round's work, estimated", round_s);
  sheet.line("the run's work, estimated", duration_text(round_s * number(plan.job.run.rounds)));
}

void BanditAssembly::plan(const PlanCase& plan, PlanSheet& sheet) {
  const int64_t ranks = plan.planned.ranks;
  const int64_t d = bandit->dimension();
  const double bytes =
      bandit->footprint(ranks, 1).bytes_sent() - bandit->footprint(ranks, 0).bytes_sent();
  sheet.add("parameters", "parameters", d);
  sheet.add("arms", "arms", bandit->arms());
  sheet.add("clients", "clients", bandit->clients());
  sheet.add("ranks", "ranks", ranks);
  sheet.add("repeats", "repeats", plan.job.run.repeats);
  sheet.add("statistics", "numbers of a client's statistics", bandit->row_width());
  sheet.add("synchronization_bytes", "sent by a synchronization, bytes",
            int64_t{std::llround(bytes)});
  if (!bandit->sends_matrices()) return;  // the others' depend on what clients have pulled
  sheet.add("synchronization_scalars", "scalars of one, as papers count",
            2 * bandit->clients() * (d * d + d));
}

void StatisticsAssembly::plan(const PlanCase& plan, PlanSheet& sheet) {
  const int64_t ranks = plan.planned.ranks;
  sheet.add("samples", "samples", statistics->samples());
  sheet.add("clients", "clients", federation.clients());
  sheet.add("ranks", "ranks", ranks);
  sheet.add("samples_rank", "samples a rank", (statistics->samples() + ranks - 1) / ranks);
  sheet.add("data_bytes", "data a host, shared", number(federation.bytes()));
}

}  // namespace hanse
