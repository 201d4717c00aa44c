// Agreement of all ranks on errors, so that none waits for one that has given up, and on inputs.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Collective. When any rank passes an exception, all ranks throw AgreedError with the message and
// exit status of the lowest such rank, named with its host when it is not rank 0. Cost: one
// all-reduce when nobody failed.
void agree(Communicator& comm, std::exception_ptr failure);

// Runs `work`, which must not communicate over `comm`, on this rank, then agrees on its outcome.
void agree_on(Communicator& comm, const std::function<void()>& work);

// Collective. All ranks must have the same text; throws AgreedError that says `what` differs.
void require_same(Communicator& comm, const std::string& what, const std::string& text,
                  const std::string& hint);

}  // namespace hanse
