#include "hanse/run/plan.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "bandit.hpp"
#include "federated.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/run/summary.hpp"
#include "online.hpp"

namespace hanse {

namespace {

// A protocol and its parts as a run would have them, on state that is dropped with them.
std::unique_ptr<Components> assemble_scratch(const Job& job, Communicator& comm) {
  return std::make_unique<Components>(job, comm);
}

}  // namespace

std::string buffers_text(const ParameterLayout& layout) {
  std::vector<std::string> parts;
  if (const int64_t values = layout.n_params() - layout.n_trainable(); values > 0) {
    parts.push_back(fmt::format(
        "{} values in {} buffers are averaged like parameters, without the server's optimizer",
        values,
        std::count_if(layout.slots().begin(), layout.slots().end(),
                      [](const ParameterSlot& slot) { return !slot.trainable; })));
  }
  if (!layout.carried().empty()) {
    parts.push_back(fmt::format("{} integer buffers stay as they are", layout.carried().size()));
  }
  return join(parts, "; ");
}

void bind_plan(OptionTable& table, PlanOptions& options) {
  table.add("ranks", options.ranks, at_least(1), "ranks of the run");
  table.add("hosts", options.hosts, at_least(1), "hosts that they lie on");
  table.add("cores", options.cores, above(0), "cores of a host");
  table.add("link-gbit", options.link_gbit, above(0), "Gbit/s of a host's link, each way");
  table.add("latency-us", options.latency_us, at_least(0), "us of a message between hosts");
}

std::string plan_job(const std::string& job_file, const Overrides& overrides,
                     const PlanOptions& options, Communicator& comm) {
  Job job;
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
  const auto assembled = assemble_scratch(job, comm);
  Components& parts = *assembled;
  process.load = peak_memory_bytes();
  const Cluster started = started_cluster(job, comm, *parts.host);
  Cluster planned;
  agree_on(comm, [&] { planned = planned_cluster(options, job, started); });
  PlanSheet sheet;
  if (parts.bandit) {
    plan_bandit(job, *parts.bandit, planned.ranks, sheet);
  } else if (parts.online) {
    plan_online(job, parts, planned, comm, sheet);
  } else {
    plan_federated(options, job, parts, process, started, planned, comm, sheet);
  }
  return options.json ? sheet.json() : sheet.lines();
}

}  // namespace hanse
