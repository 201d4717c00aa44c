#include "hanse/run/plan.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "bandit.hpp"
#include "bandit_assembly.hpp"
#include "federated.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/run/summary.hpp"
#include "online.hpp"
#include "online_assembly.hpp"

namespace hanse {

void bind_plan(OptionTable& table, PlanOptions& options) {
  table.add("ranks", options.ranks, at_least(1), "ranks of the run");
  table.add("hosts", options.hosts, at_least(1), "hosts that they lie on");
  table.add("cores", options.cores, above(0), "cores of a host");
  table.add("link-gbit", options.link_gbit, above(0), "Gbit/s of a host's link, each way");
  table.add("latency-us", options.latency_us, at_least(0), "us of a message between hosts");
}

std::string plan_job(const std::string& job_file, const Overrides& overrides,
                     const PlanOptions& options, Communicator& comm) {
  KeyedJob job(catalog());
  agree_on(comm, [&] {
    load_job(job_file, overrides, job);
    check_job(job);
    if (job.run.device == "cuda") {
      throw InvalidArgument("a plan is measured on CPUs", "run.device",
                            "--run.device=cpu plans for them");
    }
    job.run.device = "cpu";
  });
  ProcessMemory process{.start = resident_bytes()};
  const auto assembly = assemble(job, comm);
  process.load = peak_memory_bytes();
  const Cluster started = started_cluster(job, comm, *assembly->host);
  Cluster planned;
  agree_on(comm, [&] { planned = planned_cluster(options, job, started); });
  PlanSheet sheet;
  if (const auto* bandits = dynamic_cast<BanditAssembly*>(assembly.get())) {
    plan_bandit(job, *bandits->bandit, planned.ranks, sheet);
  } else if (auto* nodes = dynamic_cast<OnlineAssembly*>(assembly.get())) {
    plan_online(job, *nodes, planned, comm, sheet);
  } else if (auto* parts = dynamic_cast<FederatedAssembly*>(assembly.get())) {
    plan_federated(options, job, *parts, process, started, planned, comm, sheet);
  }
  return options.json ? sheet.json() : sheet.lines();
}

}  // namespace hanse
