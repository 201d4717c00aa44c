#include "simulation.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/client/simulated_update.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/cluster.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/updates.hpp"
#include "protocols.hpp"

namespace hanse {

namespace {

Cluster simulated_cluster(const Job& job, int64_t ranks) {
  const SimulateOptions& options = job.simulate;
  if (options.hosts > ranks) {
    throw InvalidArgument(fmt::format("{} hosts, but {} ranks", options.hosts, ranks),
                          "simulate.hosts", "start more ranks, or name fewer hosts");
  }
  Cluster cluster{
      .ranks = ranks,
      .hosts = options.hosts,
      .cores = options.cores,
      .threads = job.run.threads,
      .network = {1e-6 * options.latency_us, bytes_a_second(options.link_gbit)},
      .memory = {1e-6 * options.memory_latency_us, bytes_a_second(options.memory_gbit)}};
  if (options.cores == 0) {
    cluster.cores = static_cast<double>(cluster.ranks_a_host() * cluster.threads);
  }
  return cluster;
}

// By how much ranks that share their host's cores are slower while all of them train.
double slowdown(const Cluster& cluster) {
  return std::max(1.0, static_cast<double>(cluster.ranks_a_host()) / cluster.slots());
}

}  // namespace

bool is_simulated(const Job& job) {
  return job.simulate.is_on() && protocol_kind(job).reading.reads("simulate.sample-us");
}

SimulatedRanks::SimulatedRanks(const Job& job, Communicator& comm) {
  Cluster cluster;
  agree_on(comm, [&] { cluster = simulated_cluster(job, comm.size()); });
  comm_ = make_simulated_communicator(comm, cluster);
}

std::unique_ptr<LocalUpdate> as_simulated(std::unique_ptr<LocalUpdate> inner, const Job& job,
                                          const Federation& federation, int64_t ranks) {
  if (!is_simulated(job)) return inner;
  const double sample_s = 1e-6 * job.simulate.sample_us * slowdown(simulated_cluster(job, ranks));
  return make_simulated_update(std::move(inner), federation, sample_s);
}

void plan_as_simulated(const Job& job, FederatedSettings& settings) {
  if (!is_simulated(job)) return;
  settings.comm.dispatch = AskedDispatch::kPlanned;
  ServerRole& role = settings.server.role;
  if (role == ServerRole::kAuto && job.simulate.hosts > 1) role = ServerRole::kDedicated;
}

std::string simulation_notice(const Job& job, int64_t ranks) {
  if (!is_simulated(job)) return "";
  const Cluster cluster = simulated_cluster(job, ranks);
  const std::string link =
      cluster.hosts == 1 ? "" : fmt::format(", links of {:g} Gbit/s", job.simulate.link_gbit);
  return fmt::format(
      "a simulated run: no client is trained, the model means nothing, and times are those of {} "
      "rank{} on {} host{} of {:g} cores{}",
      ranks, ranks == 1 ? "" : "s", cluster.hosts, cluster.hosts == 1 ? "" : "s", cluster.cores,
      link);
}

}  // namespace hanse
