// The families whose rows stand here, each in a file of its own.
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
