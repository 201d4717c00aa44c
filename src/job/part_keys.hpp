// Keys of what is trained of a model, and of the files that have it.
#pragma once

#include "hanse/base/options.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

void bind_part(OptionTable& table, PartOptions& client);
void bind_clusters(OptionTable& table, ClusterOptions& clusters);
void bind_model_files(OptionTable& table, RunOptions& run);

}  // namespace hanse
