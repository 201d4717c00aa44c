// The one table of names that a job file can choose.
#pragma once

#include <vector>

#include "hanse/job/kind.hpp"

namespace hanse {

// All families, in the order of `hanse list`. A job with all keys is KeyedJob(catalog()).
const std::vector<KindFamily>& catalog();

}  // namespace hanse
