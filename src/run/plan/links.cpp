#include "links.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "hanse/base/clock.hpp"

namespace hanse {

namespace {

constexpr int kTransfers = 9;
constexpr int kBarriers = 10;                      // in a row
constexpr double kLimit_s = 0.4;                   // of one kind of transfer
constexpr int64_t kMostValues = int64_t{1} << 24;  // of a row: the rate is that of longer ones

// The fastest of some runs of a collective operation that all ranks begin together: what the link
// can do. What ranks lose by waiting for cores stands in the scratch rounds.
template <class Work>
double collective_s(Communicator& comm, Work work) {
  double fastest_s = std::numeric_limits<double>::infinity();
  double total_s = 0;
  for (int repeat = 0; repeat < kTransfers && total_s < kLimit_s; ++repeat) {
    comm.barrier();
    const double start_s = monotonic_seconds();
    work();
    const double found_s = comm.allreduce_one(monotonic_seconds() - start_s, ReduceOp::kMax);
    fastest_s = std::min(fastest_s, found_s);
    total_s += found_s;
  }
  return fastest_s;
}

// The rate at which the transfer would take so long.
double rate_of(double seconds, double (*transfer_s)(const Cluster&, double), Cluster cluster,
               double bytes, double latency_s) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const Link none{.latency_s = 0, .down = kInfinite, .up = kInfinite};
  Link& slow = cluster.hosts > 1 ? cluster.network : cluster.memory;
  cluster.network = cluster.memory = none;
  slow.latency_s = latency_s;
  const double waits_s = transfer_s(cluster, bytes);
  slow = {.latency_s = 0, .down = 1, .up = 1};
  return transfer_s(cluster, bytes) / std::max(seconds - waits_s, 1e-9);
}

}  // namespace

Link measure_link(const Cluster& started, int64_t n_params, Communicator& comm) {
  if (comm.size() == 1) return {};
  const auto n = static_cast<std::size_t>(std::min(n_params, kMostValues));
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
          .down = rate_of(down_s, broadcast_s, started, sizeof(float) * bytes, latency_s),
          .up = rate_of(up_s, sum_s, started, sizeof(int64_t) * bytes, latency_s)};
}

// Each the second time, when the caches are warm.
void measure_memory_speed(int64_t n_params, double& copy_s, double& add_s) {
  const std::vector<int64_t> from(static_cast<std::size_t>(std::min(n_params, kMostValues)), 1);
  std::vector<int64_t> to(from.size(), 1);
  const auto seconds_a_byte = [&](auto work) {
    work();
    const double start_s = monotonic_seconds();
    work();
    return (monotonic_seconds() - start_s) / static_cast<double>(sizeof(int64_t) * from.size());
  };
  copy_s = seconds_a_byte([&] { std::copy(from.begin(), from.end(), to.begin()); });
  add_s = seconds_a_byte([&] {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  });
}

}  // namespace hanse
