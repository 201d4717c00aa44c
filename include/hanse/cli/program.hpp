// The command line: hanse VERB ...
#pragma once

#include <string>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/run/plan.hpp"

namespace hanse {

// A parsed command line.
struct Command {
  std::string verb;                // run, resume, plan, check, replay, list, inspect, help, version
  std::vector<std::string> words;  // positional arguments behind the verb
  Overrides overrides;             // --section.key=value
  PlanOptions plan;                // plan: --ranks=N, ...
  std::string flag;                // the last option of one verb alone, without its dashes
  std::string flag_verb;           // that verb
};

// Throws InvalidArgument: unknown verb or option, wrong number of words.
Command parse_command(const std::vector<std::string>& arguments);

// Executes the command. `start_s` is monotonic_seconds() at the start of the process. Reports
// errors on stderr: one line, from one rank.
ExitStatus execute_command(const std::vector<std::string>& arguments, double start_s);

// Texts of --help, of `hanse VERB --help` and of `hanse list [KIND]`.
std::string usage_text();
std::string list_text(const std::string& kind);
// `hanse list --markdown`: every key of a job file, a table a section. It is jobs/keys.md.
std::string list_markdown();
// `hanse list --man` and `hanse list --bash`, for installations. The page has every kind and key,
// the completion of command lines also the keys' values.
std::string manual_page();
std::string bash_completion();
std::string version_text();

}  // namespace hanse
