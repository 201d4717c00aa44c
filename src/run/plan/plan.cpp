#include "hanse/run/plan.hpp"

#include <fmt/format.h>

#include "assemble/assemble.hpp"
#include "assemble/protocols.hpp"
#include "execute/watch.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/engine_choice.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/run/summary.hpp"
#include "measure.hpp"

namespace hanse {

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} kB", bytes / 1e3);
}

std::string seconds_text(double seconds) {
  if (seconds >= 100) return duration_text(seconds);
  return seconds >= 1 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} ms", 1e3 * seconds);
}

void PlanSheet::line(const std::string& label, const std::string& value) {
  lines_ += fmt::format("{:<34} {}\n", label, value);
}

void PlanSheet::add(const std::string& key, const std::string& label, const nlohmann::json& value) {
  field(key, value);
  if (value.is_string()) return line(label, value.get<std::string>());
  if (!value.is_number_float()) return line(label, value.dump());
  const auto number = value.get<double>();
  if (key.ends_with("_bytes")) return line(label, bytes_text(number));
  if (key.ends_with("_seconds")) return line(label, seconds_text(number));
  line(label, fmt::format("{:.4g}", number));
}

void bind_plan(OptionTable& table, PlanOptions& options) {
  table.add("ranks", options.ranks, at_least(1), "ranks of the run");
  table.add("hosts", options.hosts, at_least(1), "hosts that they lie on");
  table.add("cores", options.cores, above(0), "cores of a host");
  table.add("link-gbit", options.link_gbit, above(0), "Gbit/s of a host's link, each way");
  table.add("latency-us", options.latency_us, at_least(0), "us of a message between hosts");
}

namespace {

// The rates of a plan hold for these products alone.
void describe_precision(const Job& job, PlanSheet& sheet) {
  const std::string kernels = product_kernels(job.model, false);
  if (kernels.empty()) return;
  sheet.add("precision", "factors of products in", name_of(job.model.precision));
  sheet.add("product_kernels", "products measured by", kernels);
}

void check_advice(const PlanOptions& options, const Job& job) {
  if (!options.advise) return;
  if (!protocol_kind(job).reading.reads("sampler.per-round")) {
    throw InvalidArgument("advice is for jobs whose rounds have participants", "--advise",
                          "hanse plan --ranks=N tells what N ranks take");
  }
  if (options.ranks > 0 || options.hosts > 0) {
    throw InvalidArgument("advice tries many numbers of ranks and nodes", "--advise",
                          "leave out --ranks and --hosts; --cores says what a node has");
  }
}

}  // namespace

std::string plan_job(const std::string& job_file, const Overrides& overrides,
                     const PlanOptions& options, Communicator& comm) {
  KeyedJob job(catalog());
  std::string one_by_one;
  agree_on(comm, [&] {
    load_job(job_file, overrides, job);
    if (job.run.device == RunDevice::kCuda) {
      throw InvalidArgument("a plan is measured on CPUs", "run.device",
                            "--run.device=cpu plans for them");
    }
    one_by_one = one_by_one_text(job);
    job.run.device = RunDevice::kCpu;
    check_job(job);
    check_advice(options, job);
    load_libraries(job);
  });
  PlanCase plan{.options = options, .job = job, .comm = comm, .start_bytes = resident_bytes()};
  plan.room_bytes = plan.start_bytes + static_cast<double>(available_memory());
  const auto assembly = assemble(job, comm);
  agree_on(comm, [&] {
    const bool reads = protocol_kind(job).reading.reads("evaluate.best");
    if (comm.rank() == 0) Watch(job, reads, assembly->federation);
  });
  plan.load_bytes = peak_memory_bytes();
  plan.made_bytes = resident_bytes();
  plan.started = started_cluster(job, comm, *assembly->host);
  agree_on(comm, [&] { plan.planned = planned_cluster(options, job, plan.started); });
  PlanSheet sheet;
  sheet.add("job", "job", job.run.name);
  describe_precision(job, sheet);
  if (!one_by_one.empty()) sheet.add("gpu", "on a GPU", one_by_one);
  assembly->plan(plan, sheet);
  return options.json ? sheet.json() : sheet.lines();
}

}  // namespace hanse
