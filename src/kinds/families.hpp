// The families whose rows stand in this folder, a file each.
#pragma once

#include "hanse/job/job.hpp"
#include "hanse/job/kind.hpp"

namespace hanse {

KindFamily sampler_family();
KindFamily aggregator_family();
KindFamily update_family();
KindFamily expert_family();
KindFamily bandit_family();

}  // namespace hanse
