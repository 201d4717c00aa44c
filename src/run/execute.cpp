#include "hanse/run/execute.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "execution.hpp"
#include "hanse/base/log.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/store/checkpoint.hpp"
#include "hanse/store/run_directory.hpp"

namespace hanse {

namespace {

constexpr double kSecondsToEnd = 5;  // of ranks that were killed a moment ago

// Keys that a resumed run may change; a section whose keys all may is "checkpoint.".
std::vector<std::string> changeable(const OptionTable& table) {
  std::vector<std::string> names;
  for (const Option& option : table.options()) {
    if (!option.may_change) continue;
    const std::string section = option.section();
    const auto options = table.options();
    const bool whole = std::all_of(options.begin(), options.end(), [&](const Option& other) {
      return other.section() != section || other.may_change;
    });
    const std::string name = whole ? section + "." : option.key;
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

void check_run_directory(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw InvalidArgument("no such run directory", folder, "name the run.out of an earlier run");
  }
  if (!std::filesystem::exists(folder + "/job.cfg")) {
    throw InvalidArgument("no run directory: it has no job.cfg", folder,
                          "name the run.out of an earlier run");
  }
}

void check_changes(const Overrides& overrides, const OptionTable& table) {
  for (const auto& [key, value] : overrides) {
    if (!table.contains(key) || table.at(key).may_change) continue;
    throw InvalidArgument(fmt::format("a resumed run cannot change {}", key), "--" + key,
                          fmt::format("it may change {}", join(changeable(table), ", ")));
  }
}

ResumePoint find_resume_point(const std::string& folder) {
  const auto found = newest_checkpoint(
      folder + "/checkpoints", [](const std::string& file, const std::string& why) {
        warning(fmt::format("checkpoint {} is damaged ({}); trying an older one", file, why));
      });
  if (!found) {
    throw InvalidArgument("no complete checkpoint", folder + "/checkpoints",
                          "start again with `hanse run " + folder + "/job.cfg`");
  }
  return {.file = found->file, .folder = folder, .round = found->round};
}

}  // namespace

std::string check_job_file(const std::string& job_file, const Overrides& overrides) {
  KeyedJob job(catalog());
  load_job(job_file, overrides, job);
  check_job(job);
  const auto unused = unused_keys(job);
  return fmt::format("{}: no error in its options{}\n", job_file,
                     unused.empty() ? "" : "; not used by this job: " + join(unused, ", "));
}

ExitStatus run_job(const std::string& job_file, const Overrides& overrides, Communicator& comm,
                   double start_s) {
  KeyedJob job(catalog());
  RunLock lock;
  agree_on(comm, [&] {
    load_job(job_file, overrides, job);
    check_job(job);
    if (comm.rank() == 0) lock = claim_output(job.run.out, job.run.overwrite);
    job.run.overwrite = false;  // permission for this start, not for those with the written job.cfg
  });
  require_same(comm, "job files", job_text(job), "start every rank with the same arguments");
  if (comm.rank() != 0) lock = RunLock::join(job.run.out);
  comm.set_timeout(job.comm.timeout_seconds);
  return execute(job, comm, start_s, std::nullopt);
}

ExitStatus resume_job(const std::string& run_directory, const Overrides& overrides,
                      Communicator& comm, double start_s) {
  KeyedJob job(catalog());
  RunLock lock;
  ResumePoint point;
  agree_on(comm, [&] {
    check_changes(overrides, job.table);
    check_run_directory(run_directory);
    load_job(run_directory + "/job.cfg", {}, job);
    const int64_t rounds_before = job.run.rounds;
    job.run.out = run_directory;
    job.run.max_seconds = 0;
    for (const auto& [key, value] : overrides) job.table.set(key, value, "--" + key);
    job.table.resolve();
    check_job(job);
    if (comm.rank() != 0) return;
    std::error_code code;  // set when run.out is not there yet
    lock = std::filesystem::equivalent(job.run.out, run_directory, code)
               ? RunLock::take(run_directory, kSecondsToEnd)
               : claim_output(job.run.out, job.run.overwrite);
    point = find_resume_point(run_directory);
    if (job.run.rounds < point.round) {
      throw InvalidArgument(fmt::format("the checkpoint is behind round {}", job.run.rounds),
                            "run.rounds",
                            fmt::format("it has completed {} of {}", point.round, rounds_before));
    }
  });
  if (comm.rank() != 0) lock = RunLock::join(job.run.out);
  job.run.overwrite = false;
  point.file = bcast_text(comm, point.file, 0);
  notice(fmt::format("resuming {} after round {}", run_directory, point.round));
  comm.set_timeout(job.comm.timeout_seconds);
  return execute(job, comm, start_s, point);
}

}  // namespace hanse
