// Runs a job from its first round, or from its last checkpoint, to its end.
#pragma once

#include <string>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// Reports errors of the options without a look at data; one line when there are none. Throws
// InvalidArgument.
std::string check_job_file(const std::string& job_file, const Overrides& overrides);

// Both are collective; `start_s` is monotonic_seconds() at the start of the process. They return
// kDone or kStopped, and throw AgreedError when a rank failed.

// Trains the job from its first round.
ExitStatus run_job(const std::string& job_file, const Overrides& overrides, Communicator& comm,
                   double start_s);

// Continues from the newest complete checkpoint of `run_directory`, on any number of ranks.
// `overrides` may name options that may change on resume (`hanse list --markdown` has them);
// another key is an InvalidArgument.
ExitStatus resume_job(const std::string& run_directory, const Overrides& overrides,
                      Communicator& comm, double start_s);

}  // namespace hanse
