#include "measure.hpp"

#include <algorithm>
#include <functional>
#include <variant>

#include "assemble/own_columns.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/sums/gram.hpp"

namespace hanse {

namespace {

constexpr double kWholeRounds_s = 2;      // of whole rounds
constexpr double kWholeRound_s = 1;       // the longest of them
constexpr double kFewClients_s = 0.5;     // of rounds of a client a rank
constexpr double kParticipation_s = 0.5;  // of a client, where a whole round is too long
constexpr double kEvaluation_s = 0.3;     // of evaluating clients
constexpr int64_t kMostRounds = 200;
constexpr int64_t kMostShortRounds = 20;
constexpr int kBarriers = 100;
constexpr double kMostBytes = 512e6;               // that a rank keeps of a whole round
constexpr double kProductBytes = 64e6;             // of rows whose inner products are timed
constexpr int64_t kMostValues = int64_t{1} << 24;  // of a row: memory is as fast for longer ones

double seconds_of(const auto& work) {
  const double start_s = monotonic_seconds();
  work();
  return monotonic_seconds() - start_s;
}

// Seconds to evaluate a sample, of clients in turn.
double evaluation_rate(FederatedAssembly& parts) {
  RowEvaluator evaluator(parts.federation, *parts.model);
  evaluator.at(parts.trainer->model_row());
  double samples = 0;
  double seconds = 0;
  for (int64_t client = 0; seconds < kEvaluation_s; ++client) {
    const int64_t id = client % parts.federation.clients();
    seconds += seconds_of([&] {
      evaluate(parts.federation, {{id}}, [&](std::size_t) -> Evaluator& { return evaluator; });
    });
    samples += samples_evaluated(parts.federation, id);
  }
  return seconds / std::max(samples, 1.0);
}

// Times rounds of one client a rank that takes so many steps, with a model that stays as it is;
// then evaluations.
void time_few_clients(int64_t steps, FederatedAssembly& parts, const PlanCase& plan, Rates& rates) {
  Job few = parts.trained;
  const int64_t clients = few.client.pooled ? 1 : parts.federation.clients();
  few.client.steps = steps;
  few.client.phases = {};
  if (few.client.has_clusters()) few.client.copies_of.assign(to_index(clients), 0);
  few.client.state_memory = int64_t{1} << 20;  // no file
  few.sampler = {.kind = "uniform", .per_round = std::min(clients, plan.started.workers())};
  few.server.lr = 0;
  few.comm.dispatch = AskedDispatch::kPlanned;
  few.evaluate.regret = false;
  std::unique_ptr<LocalUpdate> update;
  std::unique_ptr<ClientSampler> sampler;
  std::unique_ptr<ServerOptimizer> optimizer;
  std::unique_ptr<Aggregator> aggregator;
  agree_on(plan.comm, [&] {
    update = make_update(few, parts.federation, *parts.model, parts.aggregator->needs());
    aggregator = make_fedavg(ClientWeights::kUniform, Estimator::kNormalized, clients);
    if (plan.comm.rank() != 0) return;
    sampler = make_sampler(few, parts.federation);
    optimizer = make_server_optimizer({}, parts.model->layout().n_trainable());
  });
  FederatedTrainer trainer(
      {.comm = plan.comm,
       .host = *parts.host,
       .federation = parts.federation,
       .model = *parts.model,
       .update = *update,
       .sampler = sampler.get(),
       .aggregator = *aggregator,
       .optimizer = optimizer.get()},
      {.max_participants = few.sampler.per_round, .server = few.server, .comm = few.comm});
  trainer.initialize_model();
  const auto resident = [&] {
    const double shared = parts.part != nullptr ? shared_resident_bytes() : 0;  // by its own line
    return resident_bytes() - shared - number(parts.model->pass_bytes());
  };
  const std::vector<float> zeros(static_cast<std::size_t>(parts.model->n_params()));
  parts.model->receive({zeros});  // what a part keeps of a row is no work's
  const double before = resident();
  rates.means = time_rounds(trainer, kFewClients_s, kMostShortRounds, plan.comm);
  agree_on(plan.comm, [&] { rates.sample_s = evaluation_rate(parts); });
  rates.work_bytes = std::max(rates.work_bytes, resident() - before);
  rates.train_sample_s =
      rates.means.train_s / Workload(few, parts.federation, false).drawn_s(plan.started, 1, 0);
}

// Seconds for `k` updates' products on one rank; where these take more than kProductBytes, those of
// fewer, scaled by the square.
double product_seconds(std::span<const float> theta, int64_t k) {
  const auto row_bytes = static_cast<double>(theta.size_bytes());
  const int64_t some = std::clamp<int64_t>(static_cast<int64_t>(kProductBytes / row_bytes), 1, k);
  std::vector<OwnedRow> rows;
  for (int64_t i = 0; i < some; ++i) rows.push_back({i, theta});
  const auto alone = make_single_communicator();
  GramExchange exchange(*alone, {{0, static_cast<int64_t>(theta.size())}});
  const double more = number(k) / number(some);
  return seconds_of([&] { exchange.gram(rows, some); }) * more * more;
}

// Seconds to add a byte of int64 to another, the second time, when the caches are warm.
double addition_seconds(int64_t n_params) {
  const std::vector<int64_t> from(static_cast<std::size_t>(std::min(n_params, kMostValues)), 1);
  std::vector<int64_t> to = from;
  const auto add = [&] {
    std::transform(from.begin(), from.end(), to.begin(), to.begin(), std::plus());
  };
  add();
  return seconds_of(add) / (sizeof(int64_t) * number(std::ssize(from)));
}

// Seconds of a message of a few bytes, between the hosts when there are several.
double latency_seconds(Cluster unit, Communicator& comm) {
  if (comm.size() == 1) return 0;
  unit.network.latency_s = unit.memory.latency_s = 1;
  comm.barrier();
  const double barriers_s = seconds_of([&] {
    for (int i = 0; i < kBarriers; ++i) comm.barrier();
  });
  return barriers_s / (kBarriers * small_s(unit));
}

void measure_checkpoint(const Protocol& protocol, Rates& rates) {
  const double before = resident_bytes();
  State state;
  protocol.save(state);
  rates.state_bytes = std::max(0.0, resident_bytes() - before);
  for (const auto& [name, array] : state.arrays()) {
    rates.saved_bytes += std::visit(
        [](const auto& values) { return number(std::ssize(values)) * sizeof(values[0]); }, array);
  }
}

}  // namespace

double shared_resident_bytes() {
  return static_cast<double>(bytes_stated("/proc/self/status", "RssShmem").value_or(0));
}

double resident_bytes() {
  return static_cast<double>(bytes_stated("/proc/self/status", "VmRSS").value_or(0));
}

RoundMeans time_rounds(Protocol& protocol, double limit_s, int64_t most, Communicator& comm) {
  const double end_s = monotonic_seconds() + limit_s;
  RoundMeans means;
  int64_t goes_on = 1;
  for (int64_t round = 1; goes_on; ++round) {
    const RoundRecord record = protocol.round(false);
    agree(comm, protocol.failure());
    const auto column = [&](const char* name) {
      const auto found = std::ranges::find(record.more, name, &Metrics::value_type::first);
      return found == record.more.end() ? 0 : found->second;
    };
    const double share = round <= 2 ? 1 : 1 / number(round - 1);  // of the mean
    const auto add = [&](double& mean, double value) { mean += share * (value - mean); };
    add(means.round_s, record.seconds);
    add(means.train_s, record.train_s);
    add(means.server_s, column("seconds_step"));
    add(means.transfer_s, column("seconds_reduce") + column("seconds_broadcast"));
    goes_on = round < most && monotonic_seconds() < end_s;
    comm.bcast(std::span(&goes_on, 1), 0);
  }
  return means;
}

Rates measure(FederatedAssembly& parts, const Workload& workload, double row_bytes,
              const PlanCase& plan) {
  Communicator& comm = plan.comm;
  const bool server = comm.rank() == 0;
  Rates rates;
  parts.trainer->initialize_model();
  time_few_clients(1, parts, plan, rates);
  agree_on(comm, [&] {
    if (server && parts.aggregator->needs().gram) {
      rates.product_s = product_seconds(parts.trainer->model_row(), parts.sampler->per_round());
    }
    if (server && parts.own_columns) {
      rates.product_s += seconds_of_columns(*parts.own_columns,
                                            {parts.sampler->per_round(), parts.model->n_params()});
    }
    rates.machine.add_s = addition_seconds(parts.model->n_params());
  });
  rates.machine.link.latency_s = latency_seconds(plan.started, comm);
  rates.rule_s = rule_seconds({.clients = parts.federation.clients(),
                               .participants = workload.participants,
                               .needs = parts.aggregator->needs()});
  const double round_s = workload.training_s(plan.started, rates) + rates.rule_s +
                         rates.product_s / number(plan.started.ranks);
  rates.whole = row_bytes <= kMostBytes && round_s <= kWholeRound_s;
  const double steps_in_time = kParticipation_s / std::max(rates.means.train_s, 1e-6);
  // Steps of a client; 0: as the job says.
  int64_t steps = rates.whole ? 0 : std::max(int64_t{1}, static_cast<int64_t>(steps_in_time));
  comm.bcast(std::span(&steps, 1), 0);
  if (steps > 0) {
    time_few_clients(steps, parts, plan, rates);
  } else {
    const int64_t most = std::clamp<int64_t>(parts.trained.run.rounds, 1, kMostRounds);
    rates.means = time_rounds(*parts.trainer, kWholeRounds_s, most, comm);
    rates.train_sample_s = rates.means.train_s / workload.drawn_s(plan.started, 1, 0);
  }
  rates.pass_bytes = number(comm.allreduce_one(parts.model->pass_bytes(), ReduceOp::kMax));
  if (server) measure_checkpoint(*parts.trainer, rates);
  return rates;
}

}  // namespace hanse
