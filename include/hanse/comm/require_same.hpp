// What must be the same on all ranks.
#pragma once

#include <string>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Collective. All ranks must have the same text; throws AgreedError that says `what` differs.
void require_same(Communicator& comm, const std::string& what, const std::string& text,
                  const std::string& hint);

}  // namespace hanse
