// The plan of a federated job, and of its bounds.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "assemble/assemble.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/protocol/ahead_tasks.hpp"
#include "measure.hpp"

namespace hanse {

namespace {

FederatedFacts facts_of(const FederatedAssembly& parts, const Workload& workload) {
  const Job& job = parts.trained;
  const AggregatorNeeds needs = needs_among(parts.aggregator->needs(), parts.attackers.get());
  return {.clients = parts.federation.clients(),
          .participants = workload.participants,
          .role = job.server.role,
          .exact = job.comm.reduction == Reduction::kExact,
          .planned = job.comm.dispatch == AskedDispatch::kPlanned,
          .has_deadline = job.run.round_seconds > 0,
          .all_clients_first = workload.all_clients_first,
          .candidates = workload.candidates,
          .squares = sampler_traits(job.sampler).squares,
          .needs = needs,
          .parts = row_parts(parts.model->layout(), needs.layers),
          .n_params = parts.model->n_params(),
          .state_width = parts.state_width() + width_of(rule_state_blocks(parts.aggregator->needs(),
                                                                          parts.model->layout())),
          .control_width = parts.update->control_width(),
          .control_returns = parts.update->control_returns()};
}

RoundFootprint footprint_on(const Cluster& cluster, FederatedFacts facts,
                            const Workload& workload) {
  facts.most_on_rank = workload.most_on_rank(cluster);
  return FederatedTrainer::footprint(facts, cluster.ranks, cluster.hosts);
}

double state_room(const Job& job) { return number(job.client.state_memory << 20); }

// What a rank keeps of a round; not to be tried where states would go to a file.
double round_rows_bytes(const Job& job, const RoundFootprint& footprint) {
  const double states = footprint.memory_bytes_of("client states");
  return states > state_room(job) ? std::numeric_limits<double>::infinity()
                                  : states + footprint.memory_bytes_of("kept updates");
}

// Share of the data that a rank touches: it trains its part of all rounds and evaluates its part of
// the clients.
double touched_share(const Job& job, const Workload& workload, const Cluster& cluster) {
  const double drawn = workload.participants * number(job.run.rounds) / number(cluster.workers());
  const double not_drawn = std::pow(1 - 1 / number(workload.clients), drawn);
  return 1 - (1 - 1 / number(cluster.ranks)) * not_drawn;
}

void describe_memory(const FederatedAssembly& parts, const Rates& rates, const Workload& workload,
                     const RoundFootprint& footprint, const PlanCase& plan, PlanSheet& sheet) {
  const auto data = number(parts.federation.bytes());
  const double kept = footprint.memory_bytes_of("kept updates");
  const double all_states = footprint.memory_bytes_of("client states");
  const double states = std::min(all_states, state_room(parts.trained));
  const double rows = footprint.memory_bytes() - kept - all_states;
  const double work = rates.work_bytes + rates.state_bytes;
  const double row = sizeof(float) * number(parts.model->n_params());
  const double versions = row * workload.versions_kept;
  const bool runs_ahead = parts.trained.async.is_on() && parts.trained.async.ahead > 0;
  const double ahead = runs_ahead ? row * number(AheadTasks::kMostRows) : 0;
  const double rank = plan.start_bytes + rows + work + kept + states + ahead;
  const double touched = touched_share(parts.trained, workload, plan.planned) * data;
  sheet.add("data_bytes", "data a host, shared", data);
  sheet.add("program_bytes", "program and libraries a rank", plan.start_bytes);
  sheet.add("rows_bytes", "model rows a rank", rows);
  sheet.add("work_bytes", "batches, checkpoint a rank", work);
  if (kept > 0) sheet.add("kept_bytes", "kept updates a rank", kept);
  if (states > 0) sheet.add("state_bytes", "client states a rank, at most", states);
  if (all_states > states) {
    sheet.add("state_file_bytes", "and in a mapped file", all_states - states);
  }
  if (versions > 0) sheet.add("versions_bytes", "older models a host, at most", versions);
  if (ahead > 0) sheet.add("ahead_bytes", "tasks trained ahead a rank, at most", ahead);
  sheet.add("rank_bytes", "memory a rank", rank);
  sheet.add("host_bytes", "memory a host, with data",
            number(plan.planned.ranks_a_host()) * rank + data + versions);
  sheet.add("peak_bytes", "greatest of a rank, with data",
            std::max(plan.load_bytes, rank + touched));
}

// All rounds and evaluations.
void describe_run(const Job& job, double round_s, double evaluation_s, PlanSheet& sheet) {
  const int64_t every = job.evaluate.every;
  const int64_t evaluations = every > 0 ? (job.run.rounds + every - 1) / every : 1;
  const double run_s = number(job.run.rounds) * round_s + number(evaluations) * evaluation_s;
  sheet.line("the run", fmt::format("{} ({} rounds, {} evaluations)", duration_text(run_s),
                                    job.run.rounds, evaluations));
  sheet.field("run_seconds", run_s);
  if (job.run.repeats == 1) return;
  sheet.line(fmt::format("its {} repeats", job.run.repeats),
             duration_text(number(job.run.repeats) * run_s));
}

void describe_round(const Job& job, const Workload& workload, const RoundFootprint& footprint,
                    const RoundTimes& times, const Rates& rates, double busy, PlanSheet& sheet) {
  sheet.add("sent_bytes", "sent a round", footprint.bytes_sent());
  if (times.link_bytes > 0) {
    sheet.add("link_bytes", "sum and model over a host's link at most", times.link_bytes);
  }
  sheet.add("messages", "messages a round", int64_t{std::llround(footprint.messages())});
  sheet.add("participants", "participants a round", workload.participants);
  if (job.clock.is_on())
    sheet.add("virtual_seconds", "virtual time of a round", workload.virtual_s);
  if (job.async.is_on()) {
    sheet.add("busy_share", "share of their time in which ranks train", busy);
  }
  sheet.add("steps", "local steps a client, mean", workload.all.steps / number(workload.clients));
  sheet.add("step_seconds", "a local step",
            rates.train_sample_s * workload.all.trained / workload.all.steps);
  sheet.add("train_seconds",
            workload.has_losses ? "a round's training and losses" : "a round's training",
            times.training_s);
  sheet.field("sample_seconds", rates.train_sample_s);
  if (times.products_s > 0) sheet.add("gram_seconds", "inner products", times.products_s);
  sheet.add("down_seconds", "the model to the ranks", times.down_s);
  sheet.add("up_seconds", "the sum of the updates", times.up_s);
  sheet.add("server_seconds", "the server's step", rates.means.server_s);
  sheet.add("exchange_seconds", "these three, overlapping", times.exchange_s);
  sheet.add("small_seconds", "short messages and waits", times.small_s);
  sheet.add("round_seconds", "a round", times.round_s());
  sheet.add("evaluation_seconds", "an evaluation", times.evaluation_s);
  describe_run(job, times.round_s(), times.evaluation_s, sheet);
}

}  // namespace

void FederatedAssembly::plan(const PlanCase& plan, PlanSheet& sheet) {
  std::unique_ptr<Workload> workload;
  agree_on(plan.comm, [&] {
    const VirtualTime own = make_time();
    workload = std::make_unique<Workload>(trained, federation, aggregator->needs().losses,
                                          own.turnout.get());
  });
  const bool personal = evaluates_own_models(trained);
  const RoundKind kind{.facts = facts_of(*this, *workload),
                       .overlaps = step_overlaps(aggregator->needs(), *update, trained.server),
                       .own_models = personal,
                       .trains_to_evaluate = personal && !update->keeps_own_model() &&
                                             trained.evaluate.tune_steps == 0};
  const double row_bytes =
      round_rows_bytes(trained, footprint_on(plan.started, kind.facts, *workload));
  Rates rates = measure(*this, *workload, row_bytes, plan);
  rates.machine.link = measured_link(kind, rates, plan.started);
  Cluster started = plan.started;
  Cluster planned = plan.planned;
  set_links({}, rates.machine, plan.started, started);
  const std::string source = set_links(plan.options, rates.machine, plan.started, planned);
  const RoundTimes times = estimate_round(kind, *workload, rates, started, planned);
  const RoundFootprint footprint = footprint_on(planned, kind.facts, *workload);
  sheet.add("parameters", "parameters", model->layout().n_trainable());
  if (part != nullptr) {
    sheet.add("frozen_parameters", "frozen parameters", part->all_tensors().n_frozen());
  }
  const std::string buffers = buffers_text(model->layout());
  if (!buffers.empty()) sheet.line("buffers", buffers);
  sheet.add("clients", "clients", federation.clients());
  sheet.add("train_samples", "training samples", federation.train_samples());
  describe(planned, source, sheet);
  describe_memory(*this, rates, *workload, footprint, plan, sheet);
  const double busy = workload->busy_share(planned, rates.train_sample_s, rates.sample_s);
  describe_round(trained, *workload, footprint, times, rates, busy, sheet);
}

}  // namespace hanse
