// A family is a table of rows {KindRow row; traits; makers}, in a file of its own.
#pragma once

#include "hanse/job/job.hpp"
#include "hanse/job/kind.hpp"

namespace hanse {

KindFamily sampler_family();
KindFamily aggregator_family();
KindFamily update_family();
KindFamily optimizer_family();
KindFamily model_family();
KindFamily data_family();
KindFamily partition_family();
KindFamily expert_family();
KindFamily bandit_family();

}  // namespace hanse
