#include "hanse/run/execute.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include <fmt/format.h>

#include "execution.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/base/text.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/engine_choice.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/store/atomic_file.hpp"
#include "hanse/store/checkpoint.hpp"
#include "hanse/store/run_directory.hpp"
#include "repeats.hpp"

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

void check_changes(const Overrides& overrides, const OptionTable& table) {
  for (const auto& [key, value] : overrides) {
    if (!table.contains(key) || table.at(key).may_change) continue;
    throw InvalidArgument(fmt::format("a resumed run cannot change {}", key), "--" + key,
                          fmt::format("it may change {}", join(changeable(table), ", ")));
  }
}

// Changes a key. A file may lie elsewhere; that there is one does not change.
void change(const std::string& key, const std::string& value, OptionTable& table) {
  const auto value_now = [&] { return table.contains(key) ? table.at(key).format() : ""; };
  const auto is_there = [&](const std::string& text) {
    return key == "sampler.availability" ? is_schedule(text) : !text.empty();
  };
  const std::string before = value_now();
  table.set(key, value, "--" + key);
  const std::string after = value_now();
  if (before == after || (is_there(before) && is_there(after))) return;
  throw InvalidArgument(
      fmt::format("a resumed run {} {}",
                  is_there(before) ? "cannot do without the file of" : "has no file of", key),
      "--" + key, "start a new run to change that");
}

ResumePoint find_resume_point(const std::string& folder) {
  const auto found = newest_checkpoint(
      folder + "/checkpoints", [](const std::string& file, const std::string& why) {
        warning(fmt::format("checkpoint {} is damaged ({}); trying an older one", file, why));
      });
  if (!found) {
    throw InvalidArgument("no complete checkpoint", folder + "/checkpoints",
                          way_on_text(folder, -1));
  }
  return {.file = found->file, .folder = folder, .round = found->round};
}

// Begins at the first round; all ranks read and check the job. `repeats` as execute() has it.
RunEnd begin(KeyedJob& job, Communicator& comm, double start_s, const std::string& repeats = {}) {
  RunLock lock;
  agree_on(comm, [&] {
    if (comm.rank() == 0) lock = claim_output(job.run.out, job.run.overwrite);
    job.run.overwrite = false;  // permission for this start, not for those with the written job.cfg
  });
  require_same(comm, "job files", job_text(job), "start every rank with the same arguments");
  if (comm.rank() != 0) lock = RunLock::join(job.run.out);
  comm.set_timeout(job.comm.timeout_seconds);
  return execute(job, comm, start_s, std::nullopt, repeats);
}

// Goes on from the newest checkpoint in `folder`, which has the job, with its changes.
RunEnd go_on(KeyedJob& job, const std::string& folder, Communicator& comm, double start_s,
             const std::string& repeats = {}) {
  RunLock lock;
  ResumePoint point;
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    std::error_code code;  // set when run.out is not there yet
    lock = std::filesystem::equivalent(job.run.out, folder, code)
               ? RunLock::take(folder, kSecondsToEnd)
               : claim_output(job.run.out, job.run.overwrite);
    point = find_resume_point(folder);
    if (job.run.rounds < point.round) {
      throw InvalidArgument(fmt::format("the checkpoint is behind round {}", job.run.rounds),
                            "run.rounds", fmt::format("it has completed {}", point.round));
    }
  });
  if (comm.rank() != 0) lock = RunLock::join(job.run.out);
  job.run.overwrite = false;
  bcast_list(comm, point.file);
  point.folder = folder;
  notice(fmt::format("resuming {} after round {}", folder, point.round));
  comm.set_timeout(job.comm.timeout_seconds);
  return execute(job, comm, start_s, point, repeats);
}

// Loads the job that the run in the folder has written, with the changes of `overrides`.
void load_written_job(const std::string& folder, const Overrides& overrides, KeyedJob& job) {
  check_changes(overrides, job.table);
  check_run_directory(folder);
  load_job(folder + "/job.cfg", {}, job);
  job.run.out = folder;
  job.run.max_seconds = 0;
  for (const auto& [key, value] : overrides) change(key, value, job.table);
  job.table.resolve();
  check_job(job);
}

// Tells on stdout and stderr of a run that has come to its end, or been stopped.
ExitStatus tell(const RunEnd& end, const Job& job) {
  if (!end.way_on.empty()) {
    notice(
        fmt::format("stopped within round {}, which is not kept; {}", end.rounds + 1, end.way_on));
  } else if (end.status == ExitStatus::kStopped) {
    notice(fmt::format("stopped after round {}; go on with: hanse resume {}", end.rounds,
                       shell_word(job.run.out)));
  }
  fmt::print("{}", end.table);
  return end.status;
}

// Runs the repeats of a job that are not done yet, in order, and sums them up. `overrides` are
// those of a resume.
ExitStatus run_repeats(const KeyedJob& job, const Overrides& overrides, Communicator& comm,
                       double start_s) {
  if (job.privacy.is_on() && job.privacy.seed.number > 0) {
    notice(fmt::format("privacy.seed = {}: the repeats have noise of their own, by their run.seed",
                       job.privacy.seed.number));
  }
  for (int64_t repeat = 0; repeat < job.run.repeats; ++repeat) {
    auto progress = static_cast<int64_t>(RepeatProgress::kNothing);
    agree_on(comm, [&] {
      if (comm.rank() == 0) progress = static_cast<int64_t>(repeat_progress(job, repeat));
    });
    comm.bcast(std::span(&progress, 1), 0);
    if (progress == static_cast<int64_t>(RepeatProgress::kDone)) continue;
    const std::string folder = repeat_folder(job, repeat);
    notice(fmt::format("repeat {} of {}, seed {}", repeat + 1, job.run.repeats,
                       job.run.seed + repeat));
    if (repeat > 0) begin_phases(monotonic_seconds());
    KeyedJob one(catalog());
    RunEnd end;
    if (progress == static_cast<int64_t>(RepeatProgress::kBegun)) {
      agree_on(comm, [&] { load_written_job(folder, overrides, one); });
      end = go_on(one, folder, comm, start_s, job.run.out);
    } else {
      static_cast<Job&>(one) = job;
      one.run.seed += repeat;
      one.run.repeats = 1;
      one.run.out = folder;
      one.run.overwrite = true;  // what a run that was killed before its first checkpoint has left
      end = begin(one, comm, start_s, job.run.out);
    }
    if (end.status != ExitStatus::kDone) return tell(end, job);
  }
  RunEnd all;
  agree_on(comm, [&] {
    if (comm.rank() == 0) all.table = summarize_repeats(job);
  });
  return tell(all, job);
}

std::string folder_of(const std::string& file) {
  const auto folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? "." : folder.string();
}

[[noreturn]] void refuse_existing(const std::string& out) {
  throw InvalidArgument("the output exists", out,
                        "choose another name, or pass --run.overwrite=true");
}

void check_target(const std::string& out, bool overwrite) {
  std::error_code code;
  if (std::filesystem::is_directory(out, code)) {
    throw InvalidArgument("the output is a folder, not a file", out, "name a file, e.g. data.h5");
  }
  if (!overwrite && std::filesystem::exists(out, code)) refuse_existing(out);
}

}  // namespace

void check_run_directory(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw InvalidArgument("no such run directory", folder, "name the run.out of an earlier run");
  }
  if (!std::filesystem::exists(folder + "/job.cfg", error)) {
    throw InvalidArgument("no run directory: it has no job.cfg", folder,
                          "name the run.out of an earlier run");
  }
}

std::exception_ptr named_failure(std::exception_ptr failure, const Federation& federation) {
  if (!failure) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const TrainingError& error) {
    if (error.client() == Divergence::kNobody) return failure;
    return std::make_exception_ptr(error.called(client_label(federation, error.client())));
  } catch (const InvalidArgument& error) {
    return std::make_exception_ptr(Error(error.what()));
  } catch (...) {
    return failure;
  }
}

std::string way_on_text(const std::string& folder, int64_t round) {
  const std::string word = shell_word(folder);
  if (round >= 0) return fmt::format("`hanse resume {}` goes on after round {}", word, round);
  return fmt::format("`hanse run {} --run.out={} --run.overwrite=true` starts again",
                     shell_word(folder + "/job.cfg"), word);
}

std::string WayOn::hint() const {
  std::error_code code;
  if (text.empty() || std::filesystem::exists(file, code)) return text;
  return "something has removed " + file;
}

WayOn way_on_from(const std::string& folder, int64_t round, const std::string& repeats) {
  return {
      .text = repeats.empty() ? way_on_text(folder, round)
                              : fmt::format("`hanse resume {}` goes on", shell_word(repeats)),
      .file = round >= 0 ? checkpoint_path(folder + "/checkpoints", round) : folder + "/job.cfg"};
}

std::string with_hint(const std::string& text, const std::string& hint) {
  if (hint.empty()) return text;
  return text + (text.find("; hint: ") == std::string::npos ? "; hint: " : "; ") + hint;
}

std::exception_ptr with_way_on(std::exception_ptr failure, const std::string& hint) {
  if (!failure) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const IoError& error) {
    return std::make_exception_ptr(IoError(with_hint(error.what(), hint)));
  } catch (...) {
    return failure;
  }
}

void agree_running(Communicator& comm, const std::exception_ptr& failure) {
  try {
    agree(comm, failure);
  } catch (const AgreedError& error) {
    if (error.exit_status() == ExitStatus::kStopped) throw;
    throw AgreedError(error.what(), ExitStatus::kFailed);
  }
}

std::string check_job_file(const std::string& job_file, const Overrides& overrides) {
  KeyedJob job(catalog());
  load_job(job_file, overrides, job);
  check_job(job);
  const auto unused = unused_keys(job);
  const std::string one_by_one = one_by_one_text(job);
  return fmt::format("{}: no error in its options{}{}{}\n", job_file,
                     unused.empty() ? "" : "; not used by this job: " + join(unused, ", "),
                     asks_the_data(job)
                         ? "; how many clients there are is not known before the data are read"
                         : "",
                     one_by_one.empty() ? "" : "; " + one_by_one);
}

void agree_that_left(Communicator& comm, const std::exception_ptr& failure) {
  try {
    agree_running(comm, failure);
  } catch (const AgreedError& error) {
    if (error.exit_status() != ExitStatus::kStopped) throw;
  }
}

ExitStatus run_job(const std::string& job_file, const Overrides& overrides, Communicator& comm,
                   double start_s) {
  begin_phases(start_s);
  KeyedJob job(catalog());
  agree_on(comm, [&] {
    load_job(job_file, overrides, job);
    check_job(job);
  });
  if (!has_repeats(job)) return tell(begin(job, comm, start_s), job);
  RunLock lock;
  agree_on(comm, [&] {
    if (comm.rank() == 0) lock = claim_output(job.run.out, job.run.overwrite);
    job.run.overwrite = false;
    if (comm.rank() != 0) return;
    RunDirectory::clear(job.run.out);
    write_file(job.run.out + "/job.cfg", job_text(job));
  });
  if (comm.rank() != 0) lock = RunLock::join(job.run.out);
  return run_repeats(job, {}, comm, start_s);
}

ExitStatus resume_job(const std::string& run_directory, const Overrides& overrides,
                      Communicator& comm, double start_s) {
  begin_phases(start_s);
  KeyedJob job(catalog());
  agree_on(comm, [&] { load_written_job(run_directory, overrides, job); });
  if (!has_repeats(job)) return tell(go_on(job, run_directory, comm, start_s), job);
  RunLock lock;
  agree_on(comm, [&] {
    if (job.run.out != run_directory) {
      throw InvalidArgument("repeats stay where they are", "run.out", "leave it out");
    }
    if (comm.rank() != 0) return;
    lock = RunLock::take(run_directory, kSecondsToEnd);
    write_file(run_directory + "/job.cfg", job_text(job));
  });
  if (comm.rank() != 0) lock = RunLock::join(run_directory);
  return run_repeats(job, overrides, comm, start_s);
}

std::string convert_job(const std::string& job_file, const Overrides& overrides,
                        const std::string& out) {
  KeyedJob job(catalog());
  load_job(job_file, overrides, job);
  check_data(job.data, job.federation);
  check_target(out, job.run.overwrite);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of the write, not a death
  TemporaryFile file(temporary_beside(out));
  const ScratchMemory scratch(folder_of(out));
  const auto sizes =
      write_hanse_file(file.path(), job.data, job.federation, seed_of(job, job.data.seed));
  // Another process may have written it meanwhile.
  if (job.run.overwrite) file.publish(out);
  if (!job.run.overwrite && !file.publish_new(out)) refuse_existing(out);
  return fmt::format("{}: {} clients{}, {} samples, {:.1f} MB\n", out, sizes.clients,
                     sizes.held_out > 0 ? fmt::format(" and {} held out", sizes.held_out) : "",
                     sizes.samples, 1e-6 * static_cast<double>(sizes.bytes));
}

}  // namespace hanse
