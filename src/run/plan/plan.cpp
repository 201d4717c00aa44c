#include "hanse/run/plan.hpp"

#include "../protocols.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/engine.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/run/summary.hpp"
#include "measure.hpp"

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
    plan_on_cpus(job);
  });
  PlanCase plan{.options = options, .job = job, .comm = comm, .start_bytes = resident_bytes()};
  const auto assembly = assemble(job, comm);
  plan.load_bytes = peak_memory_bytes();
  plan.started = started_cluster(job, comm, *assembly->host);
  agree_on(comm, [&] { plan.planned = planned_cluster(options, job, plan.started); });
  PlanSheet sheet;
  assembly->plan(plan, sheet);
  return options.json ? sheet.json() : sheet.lines();
}

}  // namespace hanse
