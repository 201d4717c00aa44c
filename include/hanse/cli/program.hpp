// The command line: hanse VERB ...
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/run/plan.hpp"
#include "hanse/run/predict.hpp"
#include "hanse/run/privacy_audit.hpp"
#include "hanse/run/privacy_table.hpp"

namespace hanse {

// A parsed command line.
struct Command {
  std::string verb;                // of kVerbs, or help, version
  std::vector<std::string> words;  // positional arguments behind the verb
  Overrides overrides;             // --section.key=value
  PlanOptions plan;                // plan: --ranks=N, ...
  PrivacyQuery privacy;            // privacy: --rounds=N, ...
  AuditQuery audit;                // audit: --runs=N, ...
  PredictQuery predict;            // predict: --client=NAME, ...
  std::string flag;                // the last option of some verbs alone, without its dashes
  std::string flag_verb;           // the first of those verbs
};

// Throws InvalidArgument: unknown verb or option, wrong number of words.
Command parse_command(const std::vector<std::string>& arguments);

// Executes the command. Reports errors on stderr: one line, from one rank.
ExitStatus execute_command(const std::vector<std::string>& arguments, const Start& start);

// Texts of --help, of `hanse VERB --help` and of `hanse list [KIND]`.
std::string usage_text();
std::string list_text(const std::string& kind);
// `hanse list --markdown`: every key of a job file, a table a section. It is jobs/keys.md.
std::string list_markdown();
// `hanse list --conflicts`: what a job cannot have together. It is jobs/conflicts.md.
std::string conflicts_page();
// `hanse list --man` and `hanse list --bash`, for installations. The page has every kind and key,
// the completion of command lines also the keys' values.
std::string manual_page();
std::string bash_completion();
// `hanse --version`: versions, and what the launcher has found.
std::string version_text(const Start& start);

// The commands of the program.
struct Verb {
  const char* name;
  std::size_t fewest;  // words behind it
  std::size_t most;
  bool takes_options;              // --section.key=value
  const char* missing;             // the words that it needs
  std::vector<const char*> flags;  // its own, without their dashes
};

inline const Verb kVerbs[] = {{"run", 1, 1, true, "a job file", {}},
                              {"resume", 1, 1, true, "a run directory", {}},
                              {"plan", 1, 1, true, "a job file", {"json", "advise"}},
                              {"privacy", 1, 1, true, "a job file", {"json", "bits", "statement"}},
                              {"audit", 1, 1, true, "a job file", {"json"}},
                              {"replay", 1, 1, false, "a trace file", {"check"}},
                              {"check", 1, 1, true, "a job file", {}},
                              {"convert", 2, 2, true, "a job file and an output file", {}},
                              {"predict", 2, 2, false, "a run directory and data", {}},
                              {"publish", 2, 2, false, "a run directory and a new folder", {}},
                              {"list", 0, 1, false, "", {"markdown", "conflicts", "man", "bash"}},
                              {"status", 1, 1000, false, "a run directory", {"json"}},
                              {"inspect", 1, 1, false, "an HDF5 file", {"verify"}}};

}  // namespace hanse
