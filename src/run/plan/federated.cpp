// The plan of a federated job, and of its bounds.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "advice.hpp"
#include "assemble/assemble.hpp"
#include "execute/divergence_guard.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/evaluation/sample_table.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/frozen_cache.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/protocol/ahead_tasks.hpp"
#include "hanse/protocol/footprint.hpp"
#include "measure.hpp"

namespace hanse {

namespace {

constexpr double kWorthALine = 1e6;  // bytes

FederatedFacts facts_of(const FederatedAssembly& parts, const Workload& workload) {
  const Job& job = parts.trained;
  const AggregatorNeeds needs = needs_among(parts.aggregator->needs(), parts.attackers.get());
  return {
      .clients = parts.federation.clients(),
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
      .state_width = parts.state_width() +
                     width_of(rule_state_blocks(parts.aggregator->needs(), parts.model->layout())),
      .control_width = parts.update->control_width(),
      .control_returns = parts.update->control_returns(),
      .stacked = parts.stacking == nullptr                  ? FederatedFacts::Stacked::kNone
                 : job.client.lora_kind == LoraKind::kFlora ? FederatedFacts::Stacked::kOnAll
                                                            : FederatedFacts::Stacked::kOnServer,
      .chooses_copies = parts.clustered != nullptr && job.client.copies_of.empty(),
      .private_rows = parts.privacy ? parts.privacy->kept_rows() : 0};
}

RoundFootprint footprint_on(const Cluster& cluster, FederatedFacts facts,
                            const Workload& workload) {
  facts.most_on_rank = workload.most_on_rank(cluster);
  return federated_footprint(facts, cluster.ranks, cluster.hosts);
}

// Bytes of rank 0, which has the scores of all clients of an evaluation.
double scores_bytes(const FederatedAssembly& parts) {
  const Federation& federation = parts.federation;
  const AskedMetrics asked = asked_of(parts.trained);
  int64_t clients = federation.clients();
  if (asked.clients > 0) clients = std::min(clients, asked.clients);
  return sample_table_bytes(federation, asked) + evaluation_bytes(clients + federation.held_out(),
                                                                  federation.classes(), asked,
                                                                  parts.tuner != nullptr);
}

double state_room(const Job& job) { return number(job.client.state_memory << 20); }

// What a rank keeps of a round; not to be tried where states would go to a file.
double round_rows_bytes(const Job& job, const RoundFootprint& footprint) {
  const double states = footprint.memory_bytes_of("client states");
  return states > state_room(job) ? std::numeric_limits<double>::infinity()
                                  : states + footprint.memory_bytes_of("kept updates") +
                                        footprint.memory_bytes_of("numbers of the rule");
}

// Share of the data that a rank touches: it trains its part of all rounds and evaluates its part of
// the clients.
double touched_share(const Job& job, const Workload& workload, const Cluster& cluster) {
  const double drawn = workload.participants * number(job.run.rounds) / number(cluster.workers());
  const double not_drawn = std::pow(1 - 1 / number(workload.clients), drawn);
  return 1 - (1 - 1 / number(cluster.ranks)) * not_drawn;
}

// What a host's memory has of frozen values.
double kept_bytes(const FederatedAssembly& parts) {
  const bool is_kept = parts.frozen != nullptr && parts.frozen->is_kept();
  return is_kept ? number(parts.frozen->shape().bytes()) : 0;
}

// Bytes of memory on the planned ranks.
struct Memory {
  Memory(const FederatedAssembly& parts, const Rates& rates, const Workload& workload,
         const RoundFootprint& footprint, double start_bytes, const Cluster& planned)
      : data(number(parts.federation.bytes()) + kept_bytes(parts)),
        start(start_bytes),
        work(rates.work_bytes),
        state(rates.state_bytes),
        pass(rates.pass_bytes),
        kept(footprint.memory_bytes_of("kept updates")),
        rule(footprint.memory_bytes_of("numbers of the rule")),
        all_states(footprint.memory_bytes_of("client states")),
        states(std::min(all_states, state_room(parts.trained))),
        rows(footprint.memory_bytes() - kept - rule - all_states) {
    const double row = sizeof(float) * number(parts.model->n_params());
    const bool runs_ahead = parts.trained.async.is_on() && parts.trained.async.ahead > 0;
    versions = row * workload.versions_kept;
    ahead = runs_ahead ? row * number(AheadTasks::kMostRows) : 0;
    scores = scores_bytes(parts);
    if (stops_at_divergence(parts.trained)) {
      undo = rates.saved_bytes +
             all_states * std::min(1.0, workload.participants / number(workload.clients));
    }
    if (parts.part != nullptr) {
      const PartMemory memory = memory_of(*parts.part);
      frozen = number(memory.shared_bytes);
      formed = number(memory.own_bytes);
    }
    rank = start + rows + work + formed + pass + kept + states + ahead + undo + numbers();
    host = number(planned.ranks_a_host()) * rank + data + versions + frozen;
  }

  // Rank 0's: behind a round comes an evaluation, and then a checkpoint.
  double numbers() const { return std::max({rule, scores, state}); }

  double data, start, work, state, pass, kept, rule, all_states, states, rows;
  double versions, ahead, scores;
  double undo = 0;                // what DivergenceGuard keeps
  double frozen = 0, formed = 0;  // of PartModel: on a host, and on a rank
  double rank;                    // a rank's own
  double host;                    // of a host, with what its ranks share
};

void describe(const Memory& memory, const PlanCase& plan, double touched_bytes, PlanSheet& sheet) {
  sheet.add("data_bytes", "data a host, shared", memory.data);
  sheet.add("program_bytes", "program and libraries a rank", memory.start);
  sheet.add("rows_bytes", "model rows a rank", memory.rows);
  sheet.add("work_bytes", "batches, checkpoint a rank", memory.work + memory.state);
  if (memory.frozen > 0) {
    sheet.add("frozen_bytes", "frozen tensors a host, shared", memory.frozen);
    sheet.add("formed_bytes", "trained tensors and matrices with adapters a rank", memory.formed);
  }
  if (memory.pass > 0)
    sheet.add("pass_bytes", "tensors of the network's passes a rank", memory.pass);
  if (memory.kept > 0) sheet.add("kept_bytes", "kept updates a rank", memory.kept);
  sheet.field("rule_bytes", memory.rule);
  if (memory.rule > kWorthALine) {
    sheet.line("numbers of the rule, rank 0", bytes_text(memory.rule));
  }
  sheet.field("scores_bytes", memory.scores);
  if (memory.scores > kWorthALine) {
    sheet.line("scores of the clients, rank 0", bytes_text(memory.scores));
  }
  if (memory.states > 0) {
    sheet.add("state_bytes", "client states a rank, at most", memory.states);
  }
  if (memory.all_states > memory.states) {
    sheet.add("state_file_bytes", "and in a mapped file", memory.all_states - memory.states);
  }
  if (memory.versions > 0) {
    sheet.add("versions_bytes", "older models a host, at most", memory.versions);
  }
  if (memory.ahead > 0) {
    sheet.add("ahead_bytes", "tasks trained ahead a rank, at most", memory.ahead);
  }
  if (memory.undo > 0) {
    sheet.add("undo_bytes", "model and states before a round a rank", memory.undo);
  }
  sheet.add("rank_bytes", "memory a rank", memory.rank);
  sheet.add("host_bytes", "memory a host, with data", memory.host);
  sheet.add("peak_bytes", "greatest of a rank, with data",
            std::max({plan.load_bytes, memory.rank + memory.frozen + touched_bytes,
                      plan.made_bytes + memory.numbers()}));
}

int64_t evaluations_of(const Job& job) {
  const int64_t every = job.evaluate.every;
  return every > 0 ? (job.run.rounds + every - 1) / every : 1;
}

// All rounds and evaluations.
void describe_run(const Job& job, double round_s, double evaluation_s, PlanSheet& sheet) {
  const int64_t evaluations = evaluations_of(job);
  const double run_s = number(job.run.rounds) * round_s + number(evaluations) * evaluation_s;
  sheet.line("the run", fmt::format("{} ({} rounds, {} evaluations)", duration_text(run_s),
                                    job.run.rounds, evaluations));
  sheet.field("run_seconds", run_s);
  if (job.run.repeats == 1) return;
  sheet.line(fmt::format("its {} repeats", job.run.repeats),
             duration_text(number(job.run.repeats) * run_s));
}

// Bytes that a client sends in a round on a link of its own, the mean.
double sent_by_client(const FederatedAssembly& parts) {
  constexpr int64_t kMost = 1000;  // clients and rounds that are looked at
  const int64_t clients = std::min(parts.federation.clients(), kMost);
  const int64_t rounds = std::min(parts.trained.run.rounds, kMost / 10);
  double sent = 0;
  for (int64_t round = 1; round <= rounds; ++round) {
    for (int64_t client = 0; client < clients; ++client) {
      sent += number(parts.update->sent_values(round, client, parts.model->layout()));
    }
  }
  return sizeof(float) * sent / number(std::max<int64_t>(1, rounds * clients));
}

void describe_round(const Job& job, const Workload& workload, const RoundFootprint& footprint,
                    const PlannedTimes& times, const Rates& rates, double busy, PlanSheet& sheet) {
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
  if (times.products_s > 0) {
    sheet.add("gram_seconds",
              is_own_rule(job.aggregator.kind) ? "inner products, own columns" : "inner products",
              times.products_s);
  }
  sheet.add("down_seconds", "the model to the ranks", times.down_s);
  sheet.add("up_seconds", "the sum of the updates", times.up_s);
  sheet.add("server_seconds", "the server's step", rates.means.server_s);
  sheet.add("exchange_seconds", "these three, overlapping", times.exchange_s);
  sheet.add("small_seconds", "short messages and waits", times.small_s + times.rest_s);
  sheet.add("round_seconds", "a round", times.round_s());
  sheet.add("evaluation_seconds", "an evaluation", times.evaluation_s);
  describe_run(job, times.round_s(), times.evaluation_s, sheet);
}

// What is frozen: what it takes to keep it, and what a round would take to compute it again.
void describe_frozen(FrozenCache& frozen, const Workload& workload, PlanSheet& sheet) {
  const double once_s = frozen.seconds_of_all();
  const double samples_a_round =
      workload.all.trained / number(workload.clients) * workload.participants;
  sheet.add("frozen_cache_bytes", "what is frozen of all samples a host",
            frozen.is_kept() ? number(frozen.shape().bytes()) : 0.0);
  sheet.add("frozen_seconds", "to compute it once, on one rank", once_s);
  sheet.add("frozen_saved_seconds", "and for a round's training, spared",
            once_s * samples_a_round / number(frozen.samples()));
}

// One measurement, which all numbers of ranks are estimated from.
struct Measured {
  Measured(FederatedAssembly& assembly, const PlanCase& plan, const Workload& its_workload)
      : parts(assembly), workload(its_workload), started(plan.started) {
    const bool personal = evaluates_own_models(parts.trained);
    kind = {
        .facts = facts_of(parts, workload),
        .overlaps = parts.acting().empty() &&
                    step_overlaps(parts.aggregator->needs(), *parts.update, parts.trained.server),
        .own_models = personal,
        .trains_to_evaluate =
            personal && !parts.update->keeps_own_model() && parts.trained.evaluate.tune_steps == 0};
    const double row_bytes =
        round_rows_bytes(parts.trained, footprint_on(plan.started, kind.facts, workload));
    rates = measure(parts, workload, row_bytes, plan);
    rates.machine.link = measured_link(kind, rates, plan.started);
    set_links({}, rates.machine, plan.started, started);
  }
  PlannedTimes on(const Cluster& planned) const {
    return estimate_round(kind, workload, rates, started, planned);
  }

  FederatedAssembly& parts;
  const Workload& workload;
  RoundKind kind;
  Rates rates;
  Cluster started;
};

RanksTried try_ranks(const Measured& measured, const PlanCase& plan, const Cluster& planned) {
  const FederatedAssembly& parts = measured.parts;
  const RoundFootprint footprint = footprint_on(planned, measured.kind.facts, measured.workload);
  const Memory memory(parts, measured.rates, measured.workload, footprint, plan.start_bytes,
                      planned);
  const double at_once =
      std::min(number(planned.workers()), number(planned.hosts) * planned.slots());
  return {.cluster = planned,
          .times = measured.on(planned),
          .server_s = measured.rates.means.server_s,
          .even_s = measured.workload.training_s({}, measured.rates) / at_once,
          .most = measured.workload.most_on_rank(planned),
          .rounds = number(parts.trained.run.rounds),
          .evaluations = number(evaluations_of(parts.trained)),
          .rank_bytes = memory.rank,
          .host_bytes = memory.host};
}

// Rank 0.
void advise(const Measured& measured, const PlanCase& plan, PlanSheet& sheet) {
  const Job& job = measured.parts.trained;
  double most = 1;
  for (const auto& round : measured.workload.rounds)
    most = std::max(most, number(std::ssize(round)));
  const double slots = planned_cluster(plan.options, job, plan.started).slots();
  std::vector<RanksTried> tried;
  AdvisedJob advised{.participants = measured.workload.participants,
                     .room_bytes = plan.room_bytes,
                     .sample_s = measured.rates.train_sample_s};
  for (const int64_t ranks : ranks_to_try(most, slots)) {
    PlanOptions options = plan.options;
    options.ranks = ranks;
    Cluster planned = planned_cluster(options, job, plan.started);
    advised.link = set_links(options, measured.rates.machine, plan.started, planned);
    tried.push_back(try_ranks(measured, plan, planned));
  }
  Cluster a_rank_each = {.ranks = static_cast<int64_t>(most), .cores = most};
  advised.longest_s = measured.workload.training_s(a_rank_each, measured.rates);
  sheet.add("participants", "participants a round", advised.participants);
  sheet.add("cores", "cores a node", tried.front().cluster.cores);
  describe(tried, advised, sheet);
}

}  // namespace

void FederatedAssembly::plan(const PlanCase& plan, PlanSheet& sheet) {
  std::unique_ptr<Workload> workload;
  agree_on(plan.comm, [&] {
    const VirtualTime own = make_time();
    workload = std::make_unique<Workload>(trained, federation, aggregator->needs().losses,
                                          own.turnout.get());
  });
  const Measured measured(*this, plan, *workload);
  sheet.add("parameters", "parameters", model->layout().n_trainable());
  if (part != nullptr) {
    sheet.add("frozen_parameters", "frozen parameters", part->all_tensors().n_frozen());
  }
  if (frozen != nullptr) describe_frozen(*frozen, *workload, sheet);
  if (clustered != nullptr) {
    const int64_t row = model->n_params();
    sheet.add("received_bytes", "bytes to a client a round",
              number(4 * update->received_values(row)));
    sheet.add("update_bytes", "bytes of a client's update", number(4 * update->own_values(row)));
  }
  const std::string buffers = buffers_text(model->layout());
  if (!buffers.empty()) sheet.line("buffers", buffers);
  sheet.add("clients", "clients", federation.clients());
  sheet.add("train_samples", "training samples", federation.train_samples());
  if (plan.options.advise) {
    if (plan.comm.rank() == 0) advise(measured, plan, sheet);
    return;
  }
  Cluster planned = plan.planned;
  const std::string source = set_links(plan.options, measured.rates.machine, plan.started, planned);
  describe(planned, source, sheet);
  const RoundFootprint footprint = footprint_on(planned, measured.kind.facts, *workload);
  describe(Memory(*this, measured.rates, *workload, footprint, plan.start_bytes, planned), plan,
           touched_share(trained, *workload, planned) * number(federation.bytes()), sheet);
  const Rates& rates = measured.rates;
  const double busy = workload->busy_share(planned, rates.train_sample_s, rates.sample_s);
  if (part != nullptr) {
    sheet.add("client_bytes", "trained values that a client sends a round", sent_by_client(*this));
  }
  describe_round(trained, *workload, footprint, measured.on(planned), rates, busy, sheet);
}

}  // namespace hanse
