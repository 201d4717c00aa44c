// The families of names that a job file can choose from, without the protocols.
#pragma once

#include <vector>

#include "hanse/job/kind.hpp"

namespace hanse {

// In the order of `hanse list`.
std::vector<KindFamily> kind_families();

}  // namespace hanse
