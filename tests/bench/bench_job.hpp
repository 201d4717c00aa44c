// The job of a benchmark's command line: PROGRAM JOB.cfg [--section.key=value ...].
#pragma once

#include <string>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"

namespace hanse {

// Checked. Throws InvalidArgument.
inline void load_bench_job(int argc, char** argv, KeyedJob& job) {
  if (argc < 2) throw InvalidArgument(std::string(argv[0]) + " needs a job file");
  Overrides overrides;
  for (int i = 2; i < argc; ++i) {
    const std::string option(argv[i] + 2);
    overrides.emplace_back(option.substr(0, option.find('=')), option.substr(option.find('=') + 1));
  }
  load_job(argv[1], overrides, job);
  check_job(job);
}

}  // namespace hanse
