#include "hanse/cli/program.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <dlfcn.h>
#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/mpirun.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/comm/mpi_environment.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/run/execute.hpp"
#include "hanse/run/status.hpp"
#include "hanse/store/inspect.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    throw InvalidArgument("cannot read the file: " + errno_text(), path);
  }
  return text.str();
}

// A job file that is not here may be an installation's: hanse run jobs/heart-920.cfg.
void find_job(Command& command, const std::string& share) {
  constexpr const char* kOfJobs[] = {"run", "plan", "privacy", "audit", "check", "convert"};
  if (share.empty() || std::ranges::count(kOfJobs, command.verb) == 0) return;
  const fs::path named = command.words.front();
  std::error_code error;
  if (!fs::exists(named, error) && fs::exists(share / named, error)) {
    command.words.front() = share / named;
  }
}

bool runs_on_ranks(const Command& command) {
  return command.verb == "run" || command.verb == "resume" || command.verb == "plan";
}

// The output of a command that runs alone.
std::string execute_alone(const Command& command, const Start& start) {
  const auto& words = command.words;
  if (command.verb == "version") return version_text(start);
  if (command.verb == "list" && command.flag == "markdown") return list_markdown();
  if (command.verb == "list" && command.flag == "conflicts") return conflicts_page();
  if (command.verb == "list" && command.flag == "man") return manual_page();
  if (command.verb == "list" && command.flag == "bash") return bash_completion();
  if (command.verb == "list") return list_text(words.empty() ? "" : words.front());
  if (command.verb == "check") return check_job_file(words[0], command.overrides);
  if (command.verb == "convert") return convert_job(words[0], command.overrides, words[1]);
  if (command.verb == "predict") {
    return predict_run(words[0], words[1], command.predict,
                       [](std::string_view piece) { fmt::print("{}", piece); });
  }
  if (command.verb == "publish") return publish_run(words[0], words[1]);
  if (command.verb == "privacy") return privacy_table(words[0], command.overrides, command.privacy);
  if (command.verb == "audit") return privacy_audit(words[0], command.overrides, command.audit);
  if (command.verb == "status") return status_text(words, command.flag == "json");
  if (command.verb == "inspect") return inspect_file(words[0], command.flag == "verify");
  if (command.verb == "replay" && command.flag == "check") return check_replay(read_file(words[0]));
  if (command.verb == "replay") return replay(read_file(words[0]));
  return usage_text();
}

ExitStatus execute_together(const Command& command, Communicator& comm, double start_s) {
  const std::string& target = command.words.front();
  if (command.verb == "run") return run_job(target, command.overrides, comm, start_s);
  if (command.verb == "resume") return resume_job(target, command.overrides, comm, start_s);
  const std::string text = plan_job(target, command.overrides, command.plan, comm);
  if (comm.rank() == 0) fmt::print("{}", text);
  return ExitStatus::kDone;
}

// Ranks of one build have the same file with this function.
void require_one_build(Communicator& comm) {
  if (comm.size() == 1) return;
  std::string mine;
  agree_on(comm, [&] {
    Dl_info file = {};
    const int found = dladdr(reinterpret_cast<const void*>(&execute_command), &file);
    if (found) mine = file_digest_hex(file.dli_fname, 0);
  });
  require_same(comm, "programs", mine, "every host needs the same build");
}

std::string text_of(const std::exception& error) {
  return is_out_of_memory(error) ? out_of_memory_report() : error.what();
}

// Rank 0 reports agreed errors, and every rank finalizes; any other error means that the ranks are
// out of step, so this rank reports it and ends them all. `misread` is the error of the command
// line: null if there is none.
ExitStatus execute_on_ranks(const Command& command, const std::exception_ptr& misread,
                            Communicator& comm, double start_s) {
  set_speaker(comm.rank() == 0);
  catch_stop_warnings();
  try {
    require_one_build(comm);
    agree(comm, misread);
    if (comm.size() > 1) {  // each starts a thread that looks for ranks that hang
      agree_on(comm, [] { require_threads(1, {}, ""); });
    }
    return execute_together(command, comm, start_s);
  } catch (const AgreedError& error) {
    if (comm.rank() == 0) report_error(error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    const std::string what = text_of(error);
    report_error(comm.size() == 1 ? what : fmt::format("{} (rank {})", what, comm.rank()));
    if (comm.size() == 1) return ExitStatus::kFailed;
    abort_all_ranks(static_cast<int>(ExitStatus::kFailed));
  }
}

}  // namespace

ExitStatus execute_command(const std::vector<std::string>& arguments, const Start& start) {
  try {
    Command command;
    std::exception_ptr misread;
    try {
      command = parse_command(arguments);
      find_job(command, start.share);
      check_kernels();
    } catch (const InvalidArgument&) {
      misread = std::current_exception();
    }
    if (!misread && !runs_on_ranks(command)) {
      if (started_in_a_row()) {
        const Launch launched = launch();
        if (launched.rank > 0) return ExitStatus::kDone;
        notice("several ranks were started: the first alone does what one process does");
      }
      end_at_stop_signals();
      fmt::print("{}", execute_alone(command, start));
      return ExitStatus::kDone;
    }
    const Launch launched = launch();
    std::optional<MpiEnvironment> mpi;
    if (started_as_rank()) mpi.emplace();
    const auto comm = mpi ? make_mpi_communicator() : make_single_communicator();
    require_all_ranks(comm->size(), launched);
    return execute_on_ranks(command, misread, *comm, start.seconds);
  } catch (const Error& error) {
    report_error(error.what());
    return error.exit_status();
  } catch (const std::exception& error) {
    report_error(text_of(error));
    return ExitStatus::kFailed;
  }
}

}  // namespace hanse
