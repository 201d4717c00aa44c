// The one table of names: what a job file can choose.
#pragma once

#include <string>
#include <vector>

#include "hanse/job/kind.hpp"

namespace hanse {

// All families, in the order of `hanse list`. A job with all keys is KeyedJob(catalog()).
const std::vector<KindFamily>& catalog();

// Names of the family that `key` chooses from. REQUIRES: key is one of catalog()'s.
std::vector<std::string> known_names(const std::string& key);

}  // namespace hanse
