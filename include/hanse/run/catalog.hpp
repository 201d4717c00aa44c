// The one table of names that a job file can choose.
#pragma once

#include <string>
#include <vector>

#include "hanse/job/kind.hpp"

namespace hanse {

// All families, in the order of `hanse list`. A job with all keys is KeyedJob(catalog()).
const std::vector<KindFamily>& catalog();

// Does the protocol of this name say itself when it has ended, so that run.rounds does not count?
// False where the name is unknown.
bool ends_itself(const std::string& protocol);

}  // namespace hanse
