// What ends a run behind its start.
#pragma once

#include <exception>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// An error in a client's training names the client as the data do. What a rule refuses now was not
// found before the first round: the run has failed.
std::exception_ptr named_failure(std::exception_ptr failure, const Federation& federation);

// As agree(), of a failure behind the start, also where a rule calls it bad input. Collective.
void agree_running(Communicator& comm, const std::exception_ptr& failure);

}  // namespace hanse
