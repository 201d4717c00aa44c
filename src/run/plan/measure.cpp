#include "measure.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "client_probe.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/thread_communicator.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/sums/gram.hpp"
#include "links.hpp"

namespace hanse {

namespace {

constexpr double kParticipation_s = 1;  // the longest of a client alone; else it takes fewer steps
constexpr double kClients_s = 1;        // of training clients alone
constexpr double kEvaluation_s = 0.5;   // of evaluating clients alone
constexpr double kRounds_s = 2;         // of scratch rounds
constexpr double kRound_s = 1;          // the longest of a scratch round
constexpr int64_t kMostRounds = 200;
constexpr double kMostBytes = 512e6;        // that a rank keeps of a scratch round
constexpr double kGramBytes = 64e6;         // of rows whose inner products are timed
constexpr double kMultiplications_s = 4e9;  // of inner products, for the decision alone

// Clients by the samples that they process, those around the median first: neighbours in the order
// of sizes, since a round meets clients whose samples are in no cache.
std::vector<int64_t> from_the_median(const Components& parts) {
  std::vector<int64_t> clients(
      static_cast<std::size_t>(parts.client.pooled ? 1 : parts.federation.clients()));
  std::iota(clients.begin(), clients.end(), 0);
  std::stable_sort(clients.begin(), clients.end(), [&](int64_t a, int64_t b) {
    return parts.federation.train(a).size() < parts.federation.train(b).size();
  });
  std::rotate(clients.begin(), clients.begin() + static_cast<std::ptrdiff_t>(clients.size() / 2),
              clients.end());
  return clients;
}

// The clients of one rank, trained and evaluated alone.
class ClientRates {
 public:
  ClientRates(Job& job, Components& parts, bool own_models)
      : parts_(parts),
        clients_(from_the_median(parts)),
        theta_(parts.trainer->model_row()),
        options_(job.client) {
    options_.steps = 1;
    short_update_ = make_short_update(job);
    probe_ = std::make_unique<ClientProbe>(parts.federation, *parts.model, *short_update_, theta_);
    own_models_ = own_models;
  }

  // What one step and one evaluation of the client with the largest batches take beside the rows.
  double work_bytes() {
    const double before = resident_bytes();
    const int64_t client =
        *std::max_element(clients_.begin(), clients_.end(), [&](int64_t a, int64_t b) {
          return parts_.federation.train(a).size() < parts_.federation.train(b).size();
        });
    probe_->train(client);
    probe_->evaluate(client);
    return std::max(0.0, resident_bytes() - before);
  }

  // Steps are cut where the median client's participation would take too long.
  void choose_steps(Job& job) {
    const double step_s = probe_->train(clients_.front());
    const int64_t steps = local_steps(job.client, samples(clients_.front()));
    if (step_s * number(steps) <= kParticipation_s) {
      options_ = job.client;
      probe_ =
          std::make_unique<ClientProbe>(parts_.federation, *parts_.model, *parts_.update, theta_);
      return;
    }
    options_.steps = std::max<int64_t>(1, static_cast<int64_t>(kParticipation_s / step_s));
    probe_.reset();
    short_update_ = make_short_update(job);
    probe_ =
        std::make_unique<ClientProbe>(parts_.federation, *parts_.model, *short_update_, theta_);
  }

  void measure(Rates& rates) {
    rates.train_sample_s = repeat(
        kClients_s, [&](int64_t client) { return probe_->train(client); },
        [&](int64_t client) { return work(client); });
    rates.sample_s = repeat(
        kEvaluation_s, [&](int64_t client) { return probe_->evaluate(client); },
        [&](int64_t client) { return evaluated(client); });
    if (own_models_) {
      rates.own_sample_s = repeat(
          kEvaluation_s, [&](int64_t client) { return probe_->make_own_model(client); },
          [&](int64_t client) { return work(client); });
    }
    const auto p = number(static_cast<int64_t>(theta_.size()));
    probe_->copy();  // warms caches
    rates.copy_s = probe_->copy() / (sizeof(float) * p);
    probe_->add();
    rates.add_s = probe_->add() / (sizeof(int64_t) * p);
  }

 private:
  std::unique_ptr<LocalUpdate> make_short_update(Job& job) const {
    const int64_t steps = std::exchange(job.client.steps, options_.steps);
    auto update = make_update(job, parts_.federation, *parts_.model);
    job.client.steps = steps;
    return update;
  }
  int64_t samples(int64_t client) const {
    return parts_.client.pooled ? parts_.federation.train_samples()
                                : parts_.federation.train(client).size();
  }
  double work(int64_t client) const { return number(samples_processed(options_, samples(client))); }
  double evaluated(int64_t client) const { return samples_evaluated(parts_.federation, client); }

  // Seconds a unit of the clients' sizes, by clients in turn for so long; the first one, which
  // warms caches, counts only when it is the only one.
  template <class Work, class Size>
  double repeat(double limit_s, Work work, Size size) {
    double seconds = 0;
    double units = 0;
    const double start_s = monotonic_seconds();
    for (std::size_t turn = 0; turn == 0 || monotonic_seconds() - start_s < limit_s; ++turn) {
      const int64_t client = clients_[turn % clients_.size()];
      if (turn == 1) seconds = units = 0;
      seconds += work(client);
      units += size(client);
    }
    return seconds / std::max(units, 1.0);
  }

  Components& parts_;
  std::vector<int64_t> clients_;
  std::span<const float> theta_;
  ClientOptions options_;  // as the probe's clients train
  bool own_models_ = false;
  std::unique_ptr<LocalUpdate> short_update_;
  std::unique_ptr<ClientProbe> probe_;
};

// Mean over the ranks that measured; the others have 0.
double mean_of_ranks(double value, Communicator& comm) {
  double sums[2] = {value, value > 0 ? 1.0 : 0.0};
  comm.allreduce(std::span(sums), ReduceOp::kSum);
  return sums[1] > 0 ? sums[0] / sums[1] : 0;
}

// Of `k` updates on one rank; of as many as take kGramBytes when they take more, and then by the
// square.
double product_seconds(std::span<const float> theta, int64_t k) {
  const auto row_bytes = static_cast<double>(theta.size_bytes());
  const int64_t some = std::clamp<int64_t>(static_cast<int64_t>(kGramBytes / row_bytes), 1, k);
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

// Rank 0: is a scratch round short and small enough?
bool fits(const ScratchRound& expected, const Rates& rates) {
  const double round_s = expected.train_samples * rates.train_sample_s +
                         expected.evaluate_samples * rates.sample_s +
                         expected.products / kMultiplications_s;
  return round_s <= kRound_s && expected.row_bytes <= kMostBytes;
}

double value_of(const char* column, const Protocol& protocol, const RoundRecord& record) {
  const auto columns = protocol.round_columns();
  const auto found = std::find(columns.begin(), columns.end(), column);
  return found == columns.end() ? 0
                                : record.more[static_cast<std::size_t>(found - columns.begin())];
}

// Rounds as a run makes them; the first, which warms caches and brings the model to the ranks, does
// not count unless it is the only one.
void run_rounds(Protocol& protocol, int64_t most, Rates& rates, Communicator& comm) {
  const double start_s = monotonic_seconds();
  int64_t goes_on = 1;
  for (int64_t round = 1; goes_on; ++round) {
    const RoundRecord record = protocol.round(false);
    agree(comm, protocol.failure());
    if (round == 2) rates.rounds = 0;
    if (rates.rounds == 0) rates.round_s = rates.train_s = rates.server_s = 0;
    ++rates.rounds;
    rates.round_s += record.seconds;
    rates.train_s += record.train_s;
    rates.server_s += comm.rank() == 0 ? value_of("seconds_step", protocol, record) : 0;
    goes_on = round < most && monotonic_seconds() - start_s < kRounds_s;
    comm.bcast(std::span(&goes_on, 1), 0);
  }
  for (double* sum : {&rates.round_s, &rates.train_s, &rates.server_s})
    *sum /= number(rates.rounds);
}

}  // namespace

double resident_bytes() {
  return static_cast<double>(bytes_told("/proc/self/status", "VmRSS").value_or(0));
}

double samples_evaluated(const Federation& federation, int64_t client) {
  const SampleRange train = federation.train(client);
  const SampleRange test = federation.test(client);
  return number(test.size() + (test.begin == train.begin ? 0 : train.size()));
}

Rates measure(Job& job, Components& parts, const Cluster& started, const ScratchRound& expected,
              Communicator& comm) {
  parts.trainer->initialize_model();
  Rates rates;
  comm.barrier();
  agree_on(comm, [&] {
    // As many clients at once as the host has cores for.
    if (number(parts.host->rank()) >= std::max(1.0, std::floor(started.slots()))) return;
    ClientRates clients(job, parts, evaluates_own_models(job));
    rates.work_bytes = clients.work_bytes();
    clients.choose_steps(job);
    clients.measure(rates);
    if (comm.rank() == 0 && parts.aggregator->needs().gram) {
      rates.product_s = product_seconds(parts.trainer->model_row(), parts.sampler->per_round());
    }
  });
  for (double* rate :
       {&rates.train_sample_s, &rates.sample_s, &rates.own_sample_s, &rates.copy_s, &rates.add_s}) {
    *rate = mean_of_ranks(*rate, comm);
  }
  rates.link = measure_link(started, parts.model->n_params(), comm);
  // The server's step without rounds: reads the sum, reads and writes its own row and the model.
  rates.server_s = rates.copy_s * 3 * sizeof(float) * number(parts.model->n_params());
  int64_t short_enough = fits(expected, rates);
  comm.bcast(std::span(&short_enough, 1), 0);
  if (short_enough) {
    run_rounds(*parts.protocol, std::clamp<int64_t>(job.run.rounds, 1, kMostRounds), rates, comm);
  }
  if (comm.rank() == 0) {
    const double before = resident_bytes();
    State training, state;
    parts.protocol->save(training);
    state.put_part("training", training);
    rates.state_bytes = std::max(0.0, resident_bytes() - before);
  }
  return rates;
}

}  // namespace hanse
