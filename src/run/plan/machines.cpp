#include "machines.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <sched.h>

#include "hanse/base/error.hpp"
#include "hanse/protocol/schedule.hpp"

namespace hanse {

namespace {

constexpr double kAssumedGbit = 10;
constexpr double kAssumedLatency_s = 20e-6;
constexpr double kMemoryLatency_s = 1e-6;

double bytes_a_second(double gbit) { return gbit * 1e9 / 8; }

// Cores that the ranks of a host may use together.
double cores_of(Communicator& host) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int64_t> usable(CPU_SETSIZE);
  for (std::size_t core = 0; core < usable.size(); ++core) usable[core] = CPU_ISSET(core, &set);
  host.allreduce(std::span(usable), ReduceOp::kMax);
  return static_cast<double>(std::count(usable.begin(), usable.end(), 1));
}

bool is_dedicated(const Job& job, const Cluster& cluster) {
  return !server_trains(job.server.role, cluster.ranks, cluster.hosts == 1);
}

}  // namespace

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
        std::ceil(static_cast<double>(planned.ranks) / std::max(1.0, std::floor(planned.slots()))));
  }
  if (options.hosts > 0) planned.hosts = options.hosts;
  if (planned.hosts > planned.ranks) {
    throw InvalidArgument(fmt::format("{} hosts, but {} ranks", planned.hosts, planned.ranks),
                          "--hosts", fmt::format("--ranks={} or more", planned.hosts));
  }
  planned.dedicated = is_dedicated(job, planned);
  return planned;
}

std::string set_links(const PlanOptions& options, const Rates& rates, const Cluster& started,
                      Cluster& planned) {
  const bool between_hosts = rates.link.down > 0 && started.hosts > 1;
  const bool within_host = rates.link.down > 0 && started.hosts == 1;
  planned.memory = {.latency_s = kMemoryLatency_s,
                    .down = 1 / (2 * rates.copy_s),
                    .up = 1 / (2 * rates.copy_s + rates.add_s)};
  if (within_host) planned.memory = rates.link;
  planned.network = {.latency_s = kAssumedLatency_s, .down = bytes_a_second(kAssumedGbit)};
  planned.network.up = std::min(planned.network.down, 1 / rates.add_s);
  if (between_hosts) planned.network = rates.link;
  if (options.link_gbit > 0) {
    planned.network.down = bytes_a_second(options.link_gbit);
    planned.network.up = std::min(planned.network.down, 1 / rates.add_s);
  }
  if (options.latency_us >= 0) planned.network.latency_s = 1e-6 * options.latency_us;
  if (options.link_gbit > 0) return "given";
  return between_hosts ? "measured" : "assumed; --link-gbit, --latency-us";
}

void describe(const Cluster& cluster, const std::string& source, PlanSheet& sheet) {
  sheet.line("ranks, of which train", fmt::format("{}, {}", cluster.ranks, cluster.workers()));
  sheet.line("hosts, cores a host", fmt::format("{}, {:g}", cluster.hosts, cluster.cores));
  sheet.field("ranks", cluster.ranks);
  sheet.field("workers", cluster.workers());
  sheet.field("hosts", cluster.hosts);
  sheet.field("cores", cluster.cores);
  if (cluster.hosts == 1) return;
  const double gbit = cluster.network.down * 8 / 1e9;
  sheet.line("link of a host", fmt::format("{:.3g} Gbit/s, {:.3g} us ({})", gbit,
                                           1e6 * cluster.network.latency_s, source));
  sheet.field("link_gbit", gbit);
  sheet.field("latency_us", 1e6 * cluster.network.latency_s);
}

}  // namespace hanse
