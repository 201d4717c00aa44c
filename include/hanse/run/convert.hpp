// Converts any source of data to Hanse's own file.
#pragma once

#include <string>

#include "hanse/base/options.hpp"

namespace hanse {

// Writes the clients and samples of a job as a file of data.kind = hanse, whole or not at all;
// returns a line that says how much. Only the keys of [data] and [federation], and run.seed, count.
// Cost: while csv, idx and made up data are converted, twice the samples on the output's disk, of
// which the system keeps pages in memory; one client in memory for the other kinds.
// Throws InvalidArgument (job, input, an output that exists while run.overwrite is not set) and
// IoError (no room).
// IoError (no room).
std::string convert_job(const std::string& job_file, const Overrides& overrides,
                        const std::string& out);

}  // namespace hanse
