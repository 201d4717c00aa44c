#include "calibration.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>

#include "hanse/base/clock.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/thread_communicator.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/protocol/gram.hpp"
#include "hanse/run/bounds.hpp"
#include "hanse/run/catalog.hpp"
#include "team.hpp"
#include "trial.hpp"

namespace hanse {

namespace {

constexpr double kTraining_s = 2;      // of training clients, once each size has been seen
constexpr double kEvaluation_s = 0.5;  // of evaluating clients
constexpr int64_t kMostPasses = 50;
constexpr int64_t kGramBytes = int64_t{256} << 20;
constexpr int kTransfers = 9;
constexpr double kQuantiles[] = {0.5, 1, 0, 0.75, 0.25};  // of the sizes that are measured

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Clients of about one size, measured.
struct Knot {
  int64_t position = 0;  // in the order of sizes
  std::vector<double> sizes;
  std::vector<double> seconds;

  // Without the first, which warms caches, where there are others.
  double typical(const std::vector<double>& values) const {
    return median({values.begin() + (values.size() > 1 ? 1 : 0), values.end()});
  }
};

// A rank's threads with what each of them trains with.
class Bench {
 public:
  Bench(const Job& job, Components& parts, int64_t threads);

  std::vector<Knot> train();
  double evaluate();  // seconds a sample
  double own_share();
  // Mean over the threads, each at once.
  double mean_s(const std::function<double(Trial&, int64_t)>& measure);
  Trial& first() { return *trials_.front(); }
  // A client whose batches are as large as any; the largest when each is one batch.
  int64_t whole_client() const;

 private:
  int64_t near(int64_t position, int64_t offset) const;
  std::vector<Knot> knots() const;
  int64_t samples_evaluated(int64_t client) const;

  Components& parts_;
  Team team_;
  std::vector<std::unique_ptr<Model>> models_;
  std::vector<std::unique_ptr<LocalUpdate>> updates_;
  std::vector<std::unique_ptr<Trial>> trials_;
  std::vector<int64_t> by_size_;  // clients by the samples they process
};

Bench::Bench(const Job& job, Components& parts, int64_t threads)
    : parts_(parts),
      team_(threads),
      models_(static_cast<std::size_t>(threads)),
      updates_(models_.size()),
      trials_(models_.size()),
      by_size_(static_cast<std::size_t>(trained_clients(parts))) {
  const auto reduction = job.comm.reduction == "fast" ? Reduction::kFast : Reduction::kExact;
  team_.run([&](int64_t thread) {
    const auto t = static_cast<std::size_t>(thread);
    if (thread > 0) {
      set_model_threads(job.run.threads);
      models_[t] =
          make_model(job.model, parts.federation.sample_shape(), parts.federation.classes());
      updates_[t] = make_update(job, parts.federation, *models_[t]);
    }
    trials_[t] = std::make_unique<Trial>(parts, thread > 0 ? *models_[t] : *parts.model,
                                         thread > 0 ? *updates_[t] : *parts.update, reduction);
  });
  std::iota(by_size_.begin(), by_size_.end(), 0);
  std::stable_sort(by_size_.begin(), by_size_.end(),
                   [&](int64_t a, int64_t b) { return work_of(parts, a) < work_of(parts, b); });
}

double Bench::mean_s(const std::function<double(Trial&, int64_t)>& measure) {
  std::vector<double> seconds(trials_.size());
  team_.run([&](int64_t thread) {
    const auto t = static_cast<std::size_t>(thread);
    seconds[t] = measure(*trials_[t], thread);
  });
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

// The client so many behind a position, from the end on before it.
int64_t Bench::near(int64_t position, int64_t offset) const {
  const auto clients = static_cast<int64_t>(by_size_.size());
  int64_t at = position + offset % clients;
  if (at >= clients) at = clients - 1 - offset % clients;
  return by_size_[static_cast<std::size_t>(std::clamp<int64_t>(at, 0, clients - 1))];
}

int64_t Bench::whole_client() const {
  const auto enough = std::find_if(by_size_.begin(), by_size_.end(), [&](int64_t client) {
    return parts_.client.batch > 0 && parts_.federation.train(client).size() >= parts_.client.batch;
  });
  return enough == by_size_.end() ? by_size_.back() : *enough;
}

std::vector<Knot> Bench::knots() const {
  std::vector<Knot> knots;
  std::vector<int64_t> seen;
  for (const double q : kQuantiles) {
    const auto last = static_cast<double>(by_size_.size() - 1);
    const auto position = static_cast<int64_t>(std::floor(q * last));
    const int64_t size = work_of(parts_, by_size_[static_cast<std::size_t>(position)]);
    if (std::find(seen.begin(), seen.end(), size) != seen.end()) continue;
    seen.push_back(size);
    knots.push_back({position, {}, {}});
  }
  return knots;
}

// Sizes in turn, other clients each time: a round meets clients whose samples are in no cache. A
// size that would take too long, by the median client, is left out.
std::vector<Knot> Bench::train() {
  std::vector<Knot> all = knots();
  const double start_s = monotonic_seconds();
  for (int64_t pass = 0; pass < kMostPasses; ++pass) {
    for (Knot& knot : all) {
      if (pass > 0 && monotonic_seconds() - start_s > kTraining_s) return all;
      const auto size = static_cast<double>(work_of(parts_, near(knot.position, 0)));
      const Knot& middle = all.front();
      if (&knot != &middle && middle.seconds[0] * size / middle.sizes[0] > kTraining_s) {
        continue;
      }
      const auto client = [&](int64_t thread) {
        return near(knot.position, pass * team_.size() + thread);
      };
      knot.seconds.push_back(
          mean_s([&](Trial& trial, int64_t thread) { return trial.train(client(thread)); }));
      double sizes = 0;
      for (int64_t t = 0; t < team_.size(); ++t)
        sizes += static_cast<double>(work_of(parts_, client(t)));
      knot.sizes.push_back(sizes / static_cast<double>(team_.size()));
    }
  }
  return all;
}

int64_t Bench::samples_evaluated(int64_t client) const {
  const SampleRange train = parts_.federation.train(client);
  const SampleRange test = parts_.federation.test(client);
  return test.size() + (test.begin == train.begin ? 0 : train.size());
}

double Bench::evaluate() {
  double seconds = 0;
  double samples = 0;
  const double start_s = monotonic_seconds();
  for (int64_t pass = 0; pass < kMostPasses; ++pass) {
    const auto client = [&](int64_t thread) {
      return near(static_cast<int64_t>(by_size_.size() / 2), pass * team_.size() + thread);
    };
    const double found =
        mean_s([&](Trial& trial, int64_t thread) { return trial.evaluate(client(thread)); });
    if (pass == 1) seconds = samples = 0;  // the first warms caches
    seconds += found * static_cast<double>(team_.size());
    for (int64_t t = 0; t < team_.size(); ++t) {
      samples += static_cast<double>(samples_evaluated(client(t)));
    }
    if (monotonic_seconds() - start_s > kEvaluation_s) break;
  }
  return seconds / samples;
}

double Bench::own_share() {
  const int64_t client = near(static_cast<int64_t>(by_size_.size() / 2), 0);
  const double own_s = mean_s([&](Trial& trial, int64_t) { return trial.make_own_model(client); });
  return own_s / mean_s([&](Trial& trial, int64_t) { return trial.train(client); });
}

// The clients' curve over all ranks that measured; [knots] sums over ranks.
Curve agree_on_curve(const std::vector<Knot>& knots, Communicator& comm) {
  constexpr std::size_t kKnots = std::size(kQuantiles);
  std::vector<double> table(3 * kKnots);  // ranks, sizes, seconds
  for (std::size_t k = 0; k < knots.size(); ++k) {
    if (knots[k].seconds.empty()) continue;
    table[3 * k] = 1;
    table[3 * k + 1] = knots[k].typical(knots[k].sizes);
    table[3 * k + 2] = knots[k].typical(knots[k].seconds);
  }
  comm.allreduce(std::span(table), ReduceOp::kSum);
  std::vector<std::pair<double, double>> points;
  for (std::size_t k = 0; k < kKnots; ++k) {
    const double* entry = table.data() + 3 * k;
    if (entry[0] > 0) points.emplace_back(entry[1] / entry[0], entry[2] / entry[0]);
  }
  std::sort(points.begin(), points.end());
  return Curve(std::move(points));
}

// Mean over the ranks that measured; the others pass NaN.
double agree_on_mean(double value, Communicator& comm) {
  double sums[2] = {std::isnan(value) ? 0 : value, std::isnan(value) ? 0.0 : 1.0};
  comm.allreduce(std::span(sums), ReduceOp::kSum);
  return sums[0] / sums[1];
}

// The median of some runs of a collective operation that all ranks begin together.
template <class Work>
double collective_s(Communicator& comm, Work work) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat < kTransfers; ++repeat) {
    comm.barrier();
    const double start_s = monotonic_seconds();
    work();
    seconds.push_back(monotonic_seconds() - start_s);
  }
  return comm.allreduce_one(median(seconds), ReduceOp::kMax);
}

// The rate at which the transfer would take so long.
double rate_of(double seconds, double (*transfer_s)(const Cluster&, double), Cluster cluster,
               double bytes, double latency_s) {
  const Link none{.latency_s = 0,
                  .down = std::numeric_limits<double>::infinity(),
                  .up = std::numeric_limits<double>::infinity()};
  Link& slow = cluster.hosts > 1 ? cluster.network : cluster.memory;
  cluster.network = cluster.memory = none;
  slow = {.latency_s = latency_s, .down = none.down, .up = none.up};
  const double waits_s = transfer_s(cluster, bytes);
  slow = {.latency_s = 0, .down = 1, .up = 1};
  return transfer_s(cluster, bytes) / std::max(seconds - waits_s, 1e-9);
}

Link measure_link(const Cluster& started, int64_t n_params, Communicator& comm) {
  if (comm.size() == 1) return {};
  const auto n = static_cast<std::size_t>(n_params);
  std::vector<float> down(n);
  std::vector<int64_t> up(n);
  Cluster unit = started;
  unit.network.latency_s = unit.memory.latency_s = 1;
  const double barrier_s = collective_s(comm, [&] { comm.barrier(); });
  const double latency_s = barrier_s / small_s(unit);
  const double down_s = collective_s(comm, [&] { comm.bcast(std::span(down), 0); });
  const double up_s = collective_s(comm, [&] { comm.reduce(std::span(up), ReduceOp::kSum, 0); });
  const auto bytes = static_cast<double>(n);
  return {.latency_s = latency_s,
          .down = rate_of(down_s, broadcast_s, started, 4 * bytes, latency_s),
          .up = rate_of(up_s, sum_s, started, 8 * bytes, latency_s)};
}

// Memory that a rank's work takes beside its rows; and, on rank 0, its state and a checkpoint's.
void measure_memory(Components& parts, Bench& bench, bool server, Calibration& found) {
  const double before = resident_bytes();
  bench.first().train(bench.whole_client());
  bench.first().evaluate(bench.whole_client());
  const double after = resident_bytes();
  found.work_bytes = std::max(0.0, after - before);
  if (!server) return;
  State training, state;
  parts.protocol->save(training);
  state.put_part("training", training);
  found.state_bytes = std::max(0.0, resident_bytes() - after);
}

// Of `k` updates; of as many as take kGramBytes when they take more, and then by the square.
double gram_seconds(std::span<const float> theta, int64_t k) {
  const auto row_bytes = static_cast<int64_t>(theta.size_bytes());
  const int64_t some = std::clamp<int64_t>(kGramBytes / row_bytes, 1, k);
  const std::vector<std::vector<float>> values(static_cast<std::size_t>(some),
                                               {theta.begin(), theta.end()});
  std::vector<OwnedRow> rows;
  for (int64_t i = 0; i < some; ++i) rows.push_back({i, values[static_cast<std::size_t>(i)]});
  const auto alone = make_single_communicator();
  GramExchange exchange(*alone, {{0, static_cast<int64_t>(theta.size())}});
  const double start_s = monotonic_seconds();
  exchange.gram(rows, some);
  const double more = static_cast<double>(k) / static_cast<double>(some);
  return (monotonic_seconds() - start_s) * more * more;
}

double field_of_status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return 1024 * std::stod(line.substr(name.size()));
  }
  return 0;
}

// Threads of a rank that measures, so that as many clients train at once as on a host of the run.
int64_t threads_of(const Cluster& started, const Cluster& planned) {
  const double at_once =
      std::min({static_cast<double>(planned.ranks_a_host()), planned.slots(), started.slots()});
  return std::max<int64_t>(1, static_cast<int64_t>(at_once) / started.ranks_a_host());
}

}  // namespace

int64_t trained_clients(const Components& parts) {
  return parts.client.pooled ? 1 : parts.federation.clients();
}

int64_t work_of(const Components& parts, int64_t client) {
  return samples_processed(parts.client, parts.client.pooled
                                             ? parts.federation.train_samples()
                                             : parts.federation.train(client).size());
}

int64_t steps_of(const Components& parts, int64_t client) {
  return local_steps(parts.client, parts.client.pooled ? parts.federation.train_samples()
                                                       : parts.federation.train(client).size());
}

double resident_bytes() { return field_of_status("VmRSS:"); }

Calibration calibrate(const Job& job, Components& parts, const Cluster& started,
                      const Cluster& planned, Communicator& comm) {
  const auto bound = is_bound(job) ? bound_job(job, parts.federation) : nullptr;
  const Job& trained = bound ? *bound : job;
  parts.trainer->initialize_model();
  const double unknown = std::nan("");
  Calibration found{.sample_s = unknown, .own_share = unknown, .copy_s = unknown, .add_s = unknown};
  std::vector<Knot> knots;
  comm.barrier();
  agree_on(comm, [&] {
    if (parts.host->rank() >= planned.ranks_a_host()) return;
    Bench bench(trained, parts, threads_of(started, planned));
    measure_memory(parts, bench, comm.rank() == 0, found);
    knots = bench.train();
    found.sample_s = bench.evaluate();
    found.own_share = evaluates_own_models(trained) ? bench.own_share() : 0;
    const auto p = static_cast<double>(parts.model->n_params());
    for (int repeat = 0; repeat < 2; ++repeat) {  // the first warms caches
      found.copy_s = bench.mean_s([](Trial& trial, int64_t) { return trial.copy(); }) / (4 * p);
      found.add_s = bench.mean_s([](Trial& trial, int64_t) { return trial.add(); }) / (8 * p);
    }
    if (comm.rank() == 0) {
      bench.first().train(bench.whole_client());
      found.server_s = bench.first().step_server(*parts.optimizer, server_rate(trained.server, 1));
    }
  });
  found.client = agree_on_curve(knots, comm);
  found.sample_s = agree_on_mean(found.sample_s, comm);
  found.own_share = agree_on_mean(found.own_share, comm);
  found.copy_s = agree_on_mean(found.copy_s, comm);
  found.add_s = agree_on_mean(found.add_s, comm);
  found.link = measure_link(started, parts.model->n_params(), comm);
  return found;
}

}  // namespace hanse
