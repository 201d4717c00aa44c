// Parts that the files of a job's sections share.
#pragma once

#include "hanse/job/keyed_job.hpp"

namespace hanse {

// A resumed run may change it.
inline void may_change(Option& option) { option.may_change = true; }

// The keys of [run].
void bind_run(OptionTable& table, RunOptions& run);

}  // namespace hanse
