#include "measure.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/single_communicator.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/rules/aggregation/fedavg.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/sums/gram.hpp"
#include "links.hpp"

namespace hanse {

namespace {

constexpr double kWholeRounds_s = 2;      // of whole rounds
constexpr double kWholeRound_s = 1;       // the longest of them
constexpr double kFewClients_s = 0.5;     // of rounds of a client a rank, of one step each
constexpr double kParticipation_s = 0.5;  // of a client, where a whole round is too long
constexpr double kEvaluation_s = 0.3;     // of evaluating clients
constexpr int64_t kMostRounds = 200;
constexpr double kMostBytes = 512e6;    // that a rank keeps of a whole round
constexpr double kProductBytes = 64e6;  // of rows whose inner products are timed

// Means over rounds. The first, which warms caches and brings the model to the ranks, does not
// count unless it is the only one.
struct RoundMeans {
  int64_t rounds = 0;
  double round_s = 0;
  double train_s = 0;
  double server_s = 0;

  void add(const RoundRecord& record, double step_s) {
    round_s += record.seconds;
    train_s += record.train_s;
    server_s += step_s;
    ++rounds;
  }
  void divide() {
    for (double* sum : {&round_s, &train_s, &server_s}) *sum /= number(rounds);
  }
};

double value_of(const char* column, const Protocol& protocol, const RoundRecord& record) {
  const auto columns = protocol.round_columns();
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end()) return 0;
  return record.more.at(static_cast<std::size_t>(found - columns.begin()));
}

RoundMeans time_rounds(Protocol& protocol, double limit_s, int64_t most, Communicator& comm) {
  const double start_s = monotonic_seconds();
  RoundMeans means;
  int64_t goes_on = 1;
  for (int64_t round = 1; goes_on; ++round) {
    const RoundRecord record = protocol.round(false);
    agree(comm, protocol.failure());
    if (round == 2) means = {};
    means.add(record, comm.rank() == 0 ? value_of("seconds_step", protocol, record) : 0);
    goes_on = round < most && monotonic_seconds() - start_s < limit_s;
    comm.bcast(std::span(&goes_on, 1), 0);
  }
  means.divide();
  return means;
}

// Rounds of one client a rank that takes so many steps, and of a model that stays as it is.
class ShortRounds {
 public:
  ShortRounds(Job& job, FederatedAssembly& parts, const Cluster& started, int64_t steps,
              Communicator& comm)
      : parts_(parts), client_(job.client) {
    client_.steps = steps;
    client_.state_memory = int64_t{1} << 20;  // no file
    const int64_t clients = job.client.pooled ? 1 : parts.federation.clients();
    const int64_t participants = std::min(clients, started.workers());
    agree_on(comm, [&] {
      const int64_t of_job = std::exchange(job.client.steps, steps);
      update_ = make_update(job, parts.federation, *parts.model);
      job.client.steps = of_job;
      sampler_ = make_uniform_sampler(clients, participants);
      optimizer_ = make_server_optimizer({}, parts.model->layout().n_trainable());
      aggregator_ = make_fedavg("uniform", Estimator::kNormalized, clients);
    });
    const bool server = comm.rank() == 0;
    FederatedTrainer::Settings settings;
    settings.max_participants = participants;
    settings.client = client_;
    settings.server = job.server;
    settings.server.lr = 0;
    settings.comm = job.comm;
    settings.comm.dispatch = "planned";
    trainer_ = std::make_unique<FederatedTrainer>(
        FederatedTrainer::Parts{.comm = comm,
                                .host = *parts.host,
                                .federation = parts.federation,
                                .model = *parts.model,
                                .update = *update_,
                                .sampler = server ? sampler_.get() : nullptr,
                                .aggregator = *aggregator_,
                                .optimizer = server ? optimizer_.get() : nullptr},
        settings);
    trainer_->initialize_model();
  }

  RoundMeans time(Communicator& comm) {
    return time_rounds(*trainer_, kFewClients_s, kMostShortRounds, comm);
  }
  // Samples that the busiest rank trains on in a round.
  double samples(const Cluster& started) const {
    const Federation& federation = parts_.federation;
    double sum = 0;
    for (int64_t client = 0; client < federation.clients(); ++client) {
      sum += number(samples_processed(
          client_, client_.pooled ? federation.train_samples() : federation.train(client).size()));
    }
    const std::vector<double> loads(static_cast<std::size_t>(started.ranks),
                                    sum / number(federation.clients()));
    return busiest(started, loads);
  }

 private:
  static constexpr int64_t kMostShortRounds = 20;

  FederatedAssembly& parts_;
  ClientOptions client_;
  std::unique_ptr<LocalUpdate> update_;
  std::unique_ptr<ClientSampler> sampler_;
  std::unique_ptr<ServerOptimizer> optimizer_;
  std::unique_ptr<Aggregator> aggregator_;
  std::unique_ptr<FederatedTrainer> trainer_;
};

// Seconds a sample, of clients in turn.
double evaluation_rate(FederatedAssembly& parts) {
  RowEvaluator evaluator(parts.federation, *parts.model);
  evaluator.at(parts.trainer->model_row());
  const double start_s = monotonic_seconds();
  double samples = 0;
  double seconds = 0;
  for (int64_t client = 0; seconds < kEvaluation_s; ++client) {
    const int64_t id = client % parts.federation.clients();
    evaluate(parts.federation, {{id}}, [&](std::size_t) -> Evaluator& { return evaluator; });
    samples += samples_evaluated(parts.federation, id);
    seconds = monotonic_seconds() - start_s;
  }
  return seconds / std::max(samples, 1.0);
}

// Of `k` updates on one rank; of as many as take kProductBytes when they take more, and then by the
// square.
double product_seconds(std::span<const float> theta, int64_t k) {
  const auto row_bytes = static_cast<double>(theta.size_bytes());
  const int64_t some = std::clamp<int64_t>(static_cast<int64_t>(kProductBytes / row_bytes), 1, k);
  const std::vector<std::vector<float>> values(static_cast<std::size_t>(some),
                                               {theta.begin(), theta.end()});
  std::vector<OwnedRow> rows;
  for (int64_t i = 0; i < some; ++i) rows.push_back({i, values[static_cast<std::size_t>(i)]});
  const auto alone = make_single_communicator();
  GramExchange exchange(*alone, {{0, static_cast<int64_t>(theta.size())}});
  const double start_s = monotonic_seconds();
  exchange.gram(rows, some);
  const double more = number(k) / number(some);
  return (monotonic_seconds() - start_s) * more * more;
}

// Rank 0's answer on all ranks.
bool decide(bool answer, Communicator& comm) {
  int64_t agreed = answer;
  comm.bcast(std::span(&agreed, 1), 0);
  return agreed != 0;
}

double checkpoint_bytes(const Protocol& protocol) {
  const double before = resident_bytes();
  State training, state;
  protocol.save(training);
  state.put_part("training", training);
  return std::max(0.0, resident_bytes() - before);
}

}  // namespace

double resident_bytes() {
  return static_cast<double>(bytes_told("/proc/self/status", "VmRSS").value_or(0));
}

Rates measure(Job& job, FederatedAssembly& parts, const Cluster& started, const Workload* workload,
              double row_bytes, Communicator& comm) {
  const bool server = comm.rank() == 0;
  parts.trainer->initialize_model();
  Rates rates;
  auto rounds = std::make_unique<ShortRounds>(job, parts, started, 1, comm);
  const double before = resident_bytes();
  RoundMeans means = rounds->time(comm);
  double samples = rounds->samples(started);
  agree_on(comm, [&] {
    rates.sample_s = evaluation_rate(parts);
    rates.work_bytes = std::max(0.0, resident_bytes() - before);
    if (server && parts.aggregator->needs().gram) {
      rates.product_s = product_seconds(parts.trainer->model_row(), parts.sampler->per_round());
    }
    measure_memory_speed(parts.model->n_params(), rates.copy_s, rates.add_s);
  });
  rates.link = measure_link(started, parts.model->n_params(), comm);
  rates.whole = decide(server && row_bytes <= kMostBytes &&
                           workload->round_s(started, means.train_s / samples, rates.sample_s) +
                                   rates.product_s / number(started.ranks) <=
                               kWholeRound_s,
                       comm);
  if (rates.whole) {
    rounds.reset();
    const int64_t most = std::clamp<int64_t>(job.run.rounds, 1, kMostRounds);
    means = time_rounds(*parts.trainer, kWholeRounds_s, most, comm);
    if (server) samples = workload->training(started);
  } else {
    const double step_s = comm.allreduce_one(server ? means.train_s : 0, ReduceOp::kMax);
    const auto steps = static_cast<int64_t>(kParticipation_s / std::max(step_s, 1e-6));
    rounds.reset();
    rounds = std::make_unique<ShortRounds>(job, parts, started, std::max<int64_t>(1, steps), comm);
    means = rounds->time(comm);
    samples = rounds->samples(started);
  }
  rates.round_s = means.round_s;
  rates.train_sample_s = means.train_s / samples;
  rates.server_s = means.server_s;
  if (server) rates.state_bytes = checkpoint_bytes(*parts.trainer);
  return rates;
}

}  // namespace hanse
