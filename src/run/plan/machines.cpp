#include "machines.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sched.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/balance.hpp"
#include "hanse/job/job.hpp"
#include "hanse/protocol/schedule.hpp"

namespace hanse {

namespace {

constexpr double kAssumedGbit = 10;
constexpr double kAssumedLatency_s = 20e-6;
constexpr double kMemoryLatency_s = 1e-6;

// Cores that the ranks of a host may use together.
double cores_of(Communicator& host) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int64_t> usable(CPU_SETSIZE);
  for (std::size_t core = 0; core < usable.size(); ++core) usable[core] = CPU_ISSET(core, &set);
  host.allreduce(std::span(usable), ReduceOp::kMax);
  return number(std::count(usable.begin(), usable.end(), 1));
}

bool is_dedicated(const Job& job, const Cluster& cluster) {
  return !server_trains(job.server.role, cluster.ranks, cluster.hosts == 1);
}

}  // namespace

double busiest(const Cluster& cluster, std::span<const double> loads) {
  std::vector<double> work(static_cast<std::size_t>(cluster.hosts));
  double longest = 0;
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    work[static_cast<std::size_t>(cluster.host_of(static_cast<int64_t>(rank)))] += loads[rank];
    longest = std::max(longest, loads[rank]);
  }
  return std::max(longest, *std::max_element(work.begin(), work.end()) / cluster.slots());
}

std::vector<double> loads_of(const Cluster& cluster, std::span<const double> costs,
                             std::span<const int64_t> worker_of) {
  std::vector<double> loads(static_cast<std::size_t>(cluster.ranks));
  const int64_t first = cluster.dedicated ? 1 : 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    loads[static_cast<std::size_t>(first + worker_of[i])] += costs[i];
  }
  return loads;
}

double shared_s(const Cluster& cluster, double seconds, int64_t items, int64_t workers) {
  const int64_t sharing = std::min(items, workers);
  return busiest(cluster,
                 std::vector<double>(static_cast<std::size_t>(sharing), seconds / number(sharing)));
}

Cluster started_cluster(const Job& job, Communicator& comm, Communicator& host) {
  Cluster here{.ranks = comm.size(),
               .hosts = comm.allreduce_one(int64_t{host.rank() == 0}, ReduceOp::kSum),
               .cores = comm.allreduce_one(cores_of(host), ReduceOp::kMin),
               .threads = job.run.threads};
  here.dedicated = is_dedicated(job, here);
  return here;
}

Cluster planned_cluster(const PlanOptions& options, const Job& job, const Cluster& started) {
  Cluster planned = started;
  if (options.cores > 0) planned.cores = options.cores;
  if (options.ranks > 0) {
    planned.ranks = options.ranks;
    planned.hosts = static_cast<int64_t>(
        std::ceil(number(planned.ranks) / std::max(1.0, std::floor(planned.slots()))));
  }
  if (options.hosts > 0) planned.hosts = options.hosts;
  if (planned.hosts > planned.ranks) {
    throw InvalidArgument(fmt::format("{} hosts, but {} ranks", planned.hosts, planned.ranks),
                          "--hosts", fmt::format("--ranks={} or more", planned.hosts));
  }
  planned.dedicated = is_dedicated(job, planned);
  return planned;
}

std::string set_links(const PlanOptions& options, const MachineSpeeds& speeds,
                      const Cluster& started, Cluster& planned) {
  const bool between_hosts = speeds.link.rate > 0 && started.hosts > 1;
  planned.memory = {.latency_s = kMemoryLatency_s, .rate = 1 / (2 * speeds.add_s)};
  planned.network = {.latency_s = kAssumedLatency_s, .rate = bytes_a_second(kAssumedGbit)};
  if (speeds.link.rate > 0) (between_hosts ? planned.network : planned.memory) = speeds.link;
  if (options.link_gbit > 0) planned.network.rate = bytes_a_second(options.link_gbit);
  if (options.latency_us >= 0) planned.network.latency_s = 1e-6 * options.latency_us;
  if (options.link_gbit > 0) return "given";
  return between_hosts ? "measured" : "assumed; --link-gbit, --latency-us";
}

void describe(const Cluster& cluster, const std::string& source, PlanSheet& sheet) {
  sheet.line("ranks, of which train", fmt::format("{}, {}", cluster.ranks, cluster.workers()));
  sheet.field("ranks", cluster.ranks);
  sheet.field("workers", cluster.workers());
  sheet.add("hosts", "hosts", cluster.hosts);
  sheet.add("cores", "cores a host", cluster.cores);
  sheet.field("memory_gbit", cluster.memory.rate * 8 / 1e9);
  sheet.field("memory_latency_us", 1e6 * cluster.memory.latency_s);
  if (cluster.hosts == 1) return;
  const double gbit = cluster.network.rate * 8 / 1e9;
  sheet.line("link of a host", fmt::format("{:.3g} Gbit/s, {:.3g} us ({})", gbit,
                                           1e6 * cluster.network.latency_s, source));
  sheet.field("link_gbit", gbit);
  sheet.field("latency_us", 1e6 * cluster.network.latency_s);
}

}  // namespace hanse
