#include "federated.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "bounds.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/updates.hpp"
#include "protocols.hpp"
#include "round_times.hpp"

namespace hanse {

namespace {

FederatedFacts facts_of(const Job& job, const FederatedAssembly& parts, const Workload& workload,
                        const Cluster& cluster) {
  const AggregatorNeeds needs = parts.aggregator->needs();
  return {.clients = parts.federation.clients(),
          .participants = workload.participants(),
          .most_on_rank = workload.most_on_rank(cluster),
          .role = job.server.role,
          .exact = job.comm.reduction == "exact",
          .planned = job.comm.dispatch == "planned",
          .has_deadline = job.run.round_seconds > 0,
          .all_clients_first = workload.all_clients_first(),
          .needs = needs,
          .parts = row_parts(parts.model->layout(), needs.layers),
          .n_params = parts.model->n_params(),
          .state_width = parts.update->state_width(),
          .control_width = parts.update->control_width(),
          .control_returns = parts.update->control_returns()};
}

// What a rank keeps of a round; not to be tried where states would go to a file.
double round_rows_bytes(const Job& job, const FederatedFacts& facts, const Cluster& started) {
  const RoundFootprint footprint = FederatedTrainer::footprint(facts, started.ranks, started.hosts);
  const double states = footprint.memory_bytes_of("client states");
  return states > number(job.client.state_memory << 20)
             ? std::numeric_limits<double>::infinity()
             : states + footprint.memory_bytes_of("kept updates");
}

void describe_job(const Job& job, const FederatedAssembly& parts, PlanSheet& sheet) {
  sheet.text("job", "job", job.run.name);
  sheet.count("parameters", "parameters", parts.model->layout().n_trainable());
  const std::string buffers = buffers_text(parts.model->layout());
  if (!buffers.empty()) sheet.line("buffers", buffers);
  sheet.line("clients, training samples",
             fmt::format("{}, {}", parts.federation.clients(), parts.federation.train_samples()));
  sheet.field("clients", parts.federation.clients());
  sheet.field("train_samples", parts.federation.train_samples());
}

void describe_memory(const Job& job, const FederatedAssembly& parts, const Cluster& cluster,
                     const Rates& rates, const Workload& workload, const RoundFootprint& footprint,
                     const ProcessMemory& process, PlanSheet& sheet) {
  const auto data = number(parts.federation.bytes());
  const double kept = footprint.memory_bytes_of("kept updates");
  const double all_states = footprint.memory_bytes_of("client states");
  const double states = std::min(all_states, number(job.client.state_memory << 20));
  const double rows = footprint.memory_bytes() - kept - all_states;
  const double work = rates.work_bytes + rates.state_bytes;
  const double rank = process.start + rows + work + kept + states;
  sheet.bytes("data_bytes", "data a host, shared", data);
  sheet.bytes("program_bytes", "program and libraries a rank", process.start);
  sheet.bytes("rows_bytes", "model rows a rank", rows);
  sheet.bytes("work_bytes", "batches, checkpoint a rank", work);
  if (kept > 0) sheet.bytes("kept_bytes", "kept updates a rank", kept);
  if (states > 0) sheet.bytes("state_bytes", "client states a rank, at most", states);
  if (all_states > states) {
    sheet.bytes("state_file_bytes", "and in a mapped file", all_states - states);
  }
  sheet.bytes("rank_bytes", "memory a rank", rank);
  sheet.bytes("host_bytes", "memory a host, with data",
              number(cluster.ranks_a_host()) * rank + data);
  sheet.bytes("peak_bytes", "greatest of a rank, with data",
              std::max(process.load, rank + workload.touched_share(cluster) * data));
}

void describe_round(const Workload& workload, const RoundFootprint& footprint,
                    const RoundTimes& times, const Rates& rates, PlanSheet& sheet) {
  sheet.bytes("sent_bytes", "sent a round", footprint.bytes_sent());
  sheet.count("messages", "messages a round", std::llround(footprint.messages()));
  sheet.line("participants a round", fmt::format("{:g}", workload.participants()));
  sheet.field("participants", workload.participants());
  sheet.line("local steps a client, mean", fmt::format("{:.1f}", workload.mean_steps()));
  sheet.field("steps", workload.mean_steps());
  sheet.seconds("step_seconds", "a local step",
                rates.train_sample_s * workload.mean_work() / workload.mean_steps());
  if (times.all_clients_s > 0) {
    sheet.seconds("foresight_seconds", "all clients before it", times.all_clients_s);
  }
  if (times.losses_s > 0) sheet.seconds("losses_seconds", "the losses before it", times.losses_s);
  sheet.seconds("train_seconds", "a round's training", times.training_s);
  if (times.products_s > 0) sheet.seconds("gram_seconds", "inner products", times.products_s);
  sheet.seconds("down_seconds", "the model to the ranks", times.down_s);
  sheet.seconds("up_seconds", "the sum of the updates", times.up_s);
  sheet.seconds("server_seconds", "the server's step", rates.server_s);
  sheet.seconds("exchange_seconds", "these three, overlapping", times.exchange_s);
  sheet.seconds("small_seconds", "short messages and waits", times.small_s);
  sheet.seconds("round_seconds", "a round", times.round_s());
}

void describe_run(const Job& job, const RoundTimes& times, PlanSheet& sheet) {
  sheet.seconds("evaluation_seconds", "an evaluation", times.evaluation_s);
  const int64_t every = job.evaluate.every;
  const int64_t evaluations = every > 0 ? (job.run.rounds + every - 1) / every : 1;
  const double run_s =
      number(job.run.rounds) * times.round_s() + number(evaluations) * times.evaluation_s;
  sheet.line("the run", fmt::format("{} ({} rounds, {} evaluations)", duration_text(run_s),
                                    job.run.rounds, evaluations));
  sheet.field("run_seconds", run_s);
}

}  // namespace

void plan_federated(const PlanOptions& options, const Job& job, FederatedAssembly& parts,
                    const ProcessMemory& process, const Cluster& started, Cluster planned,
                    Communicator& comm, PlanSheet& sheet) {
  const auto own_models = protocol_kind(job).own_models;
  const Bound bound = own_models.value_or(false) ? Bound::kLocal : Bound::kCentralized;
  Job trained = own_models ? bound_job(job, parts.federation, bound) : job;
  std::unique_ptr<Workload> workload;  // rank 0
  double row_bytes = 0;
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    workload =
        std::make_unique<Workload>(trained, parts.federation, parts.aggregator->needs().losses);
    row_bytes = round_rows_bytes(trained, facts_of(trained, parts, *workload, started), started);
  });
  const Rates rates = measure(trained, parts, started, workload.get(), row_bytes, comm);
  if (comm.rank() != 0) return;
  Cluster here = started;
  set_links({}, rates, started, here);
  const std::string source = set_links(options, rates, started, planned);
  const FederatedFacts facts = facts_of(trained, parts, *workload, planned);
  const bool personal = evaluates_own_models(trained);
  const RoundTimes times =
      estimate_round({.facts = facts,
                      .overlaps = step_overlaps(facts.needs, *parts.update),
                      .own_models = personal,
                      .trains_to_evaluate = personal && !parts.update->keeps_own_model()},
                     *workload, rates, here, planned);
  const RoundFootprint footprint = FederatedTrainer::footprint(facts, planned.ranks, planned.hosts);
  describe_job(job, parts, sheet);
  describe(planned, source, sheet);
  describe_memory(job, parts, planned, rates, *workload, footprint, process, sheet);
  describe_round(*workload, footprint, times, rates, sheet);
  describe_run(job, times, sheet);
}

}  // namespace hanse
