#include "calibration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "bench.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/single_communicator.hpp"
#include "hanse/run/bounds.hpp"
#include "hanse/sums/gram.hpp"

namespace hanse {

namespace {

constexpr int64_t kGramBytes = int64_t{256} << 20;
constexpr int kTransfers = 9;
constexpr int kBarriers = 10;      // in a row
constexpr double kRounds_s = 0.5;  // of rounds of one client a rank
constexpr double kFewestRounds = 5, kMostRounds = 200;

// The clients' curve over all ranks that measured; [knots] sums over ranks.
Curve agree_on_curve(const std::vector<Knot>& knots, Communicator& comm) {
  std::vector<double> table(3 * kMostKnots);  // ranks, sizes, seconds
  for (std::size_t k = 0; k < knots.size(); ++k) {
    if (knots[k].seconds.empty()) continue;
    table[3 * k] = 1;
    table[3 * k + 1] = Knot::mean(knots[k].sizes);
    table[3 * k + 2] = Knot::mean(knots[k].seconds);
  }
  comm.allreduce(std::span(table), ReduceOp::kSum);
  std::vector<std::pair<double, double>> points;
  for (std::size_t k = 0; k < kMostKnots; ++k) {
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

// The fastest of some runs of a collective operation that all ranks begin together: what the link
// can do. Where ranks wait for a core that does something else, find_stall() tells by how much.
template <class Work>
double collective_s(Communicator& comm, Work work) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat < kTransfers; ++repeat) {
    comm.barrier();
    const double start_s = monotonic_seconds();
    work();
    seconds.push_back(monotonic_seconds() - start_s);
  }
  comm.allreduce(std::span(seconds), ReduceOp::kMax);
  return *std::min_element(seconds.begin(), seconds.end());
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
  const double barriers_s = collective_s(comm, [&] {
    for (int i = 0; i < kBarriers; ++i) comm.barrier();
  });
  const double latency_s = barriers_s / (kBarriers * small_s(unit));
  const double down_s = collective_s(comm, [&] { comm.bcast(std::span(down), 0); });
  const double up_s = collective_s(comm, [&] { comm.reduce(std::span(up), ReduceOp::kSum, 0); });
  const auto bytes = static_cast<double>(n);
  return {.latency_s = latency_s,
          .down = rate_of(down_s, broadcast_s, started, 4 * bytes, latency_s),
          .up = rate_of(up_s, sum_s, started, 8 * bytes, latency_s)};
}

// Rounds of one client a rank: what they take beyond the training and what the link's rates
// explain, mean. Not 0 where the ranks have to share their cores: each message then waits for the
// other's turn, and everyone for the last.
double find_stall(const Cluster& started, const Link& link, Components& parts, Bench* bench,
                  Communicator& comm) {
  if (comm.size() == 1) return 0;
  const auto n = static_cast<std::size_t>(parts.model->n_params());
  std::vector<float> model(n);
  std::vector<int64_t> sum(n);
  const bool trains = bench != nullptr && !(started.dedicated && comm.rank() == 0);
  double train_s = 0;
  const auto round = [&] {
    int64_t plan = 0;
    comm.bcast(std::span(&plan, 1), 0);
    if (trains) train_s += bench->train_one();
    comm.barrier();
    comm.reduce(std::span(&plan, 1), ReduceOp::kMax, 0);
    comm.exchange(std::span(sum), std::span(model), [](int64_t, int64_t) {});
  };
  const auto seconds_of = [&](int64_t rounds) {
    train_s = 0;
    comm.barrier();
    const double start_s = monotonic_seconds();
    for (int64_t i = 0; i < rounds; ++i) round();
    return comm.allreduce_one(monotonic_seconds() - start_s, ReduceOp::kMax);
  };
  const auto rounds =
      static_cast<int64_t>(std::clamp(kRounds_s / seconds_of(1), kFewestRounds, kMostRounds));
  const double all_s = seconds_of(rounds);
  const double trained_s = agree_on_mean(trains ? train_s : std::nan(""), comm);
  Cluster here = started;
  here.network = here.memory = link;
  const auto bytes = static_cast<double>(n);
  const double known_s = exchange_s(here, 8 * bytes, 4 * bytes, 0);
  return std::max(0.0, (all_s - trained_s) / static_cast<double>(rounds) - known_s);
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

// Clients that train at once on a host of the run, as far as there are cores here.
int64_t clients_at_once(const Cluster& started, const Cluster& planned) {
  const double slots = std::min(planned.slots(), started.slots());
  return std::max<int64_t>(
      1, std::min(planned.ranks_a_host(), static_cast<int64_t>(std::floor(slots))));
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

int64_t samples_evaluated(const Components& parts, int64_t client) {
  const SampleRange train = parts.federation.train(client);
  const SampleRange test = parts.federation.test(client);
  return test.size() + (test.begin == train.begin ? 0 : train.size());
}

double resident_bytes() {
  return static_cast<double>(bytes_told("/proc/self/status", "VmRSS").value_or(0));
}

Calibration calibrate(const Job& job, Components& parts, const Cluster& started,
                      const Cluster& planned, Communicator& comm) {
  const auto bound = is_bound(job) ? bound_job(job, parts.federation) : nullptr;
  const Job& trained = bound ? *bound : job;
  parts.trainer->initialize_model();
  const double unknown = std::nan("");
  Calibration found{.sample_s = unknown, .own_share = unknown, .copy_s = unknown, .add_s = unknown};
  std::vector<Knot> knots;
  std::unique_ptr<Bench> bench_here;
  comm.barrier();
  agree_on(comm, [&] {
    const int64_t at_once = clients_at_once(started, planned);
    if (parts.host->rank() >= at_once) return;
    bench_here = std::make_unique<Bench>(trained, parts,
                                         std::max<int64_t>(1, at_once / started.ranks_a_host()));
    Bench& bench = *bench_here;
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
      if (parts.aggregator->needs().gram) {
        found.gram_s = gram_seconds(parts.trainer->model_row(), parts.sampler->per_round());
      }
    }
  });
  found.client = agree_on_curve(knots, comm);
  found.sample_s = agree_on_mean(found.sample_s, comm);
  found.own_share = agree_on_mean(found.own_share, comm);
  found.copy_s = agree_on_mean(found.copy_s, comm);
  found.add_s = agree_on_mean(found.add_s, comm);
  found.link = measure_link(started, parts.model->n_params(), comm);
  found.stall_s = find_stall(started, found.link, parts, bench_here.get(), comm);
  return found;
}

}  // namespace hanse
