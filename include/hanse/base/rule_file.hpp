// Rules of the user's own, as a job names them.
#pragma once

#include <string>

namespace hanse {

struct RuleFile {
  std::string path;
  std::string args;    // "name=value, ..."
  std::string digest;  // of the file's bytes; empty: not known yet
};

struct RuleSource {
  std::string section;  // of the job, "aggregator": its keys are path and args
  RuleFile file;
  bool python = false;  // else a library
};

}  // namespace hanse
