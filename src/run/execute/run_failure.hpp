// What ends a run behind its start.
#pragma once

#include <exception>
#include <string>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// An error in a client's training names the client as the data do. What a rule refuses now was not
// found before the first round: the run has failed.
std::exception_ptr named_failure(std::exception_ptr failure, const Federation& federation);

// How a user goes on with what an ended run has left in its folder: from the checkpoint of a round,
// or (-1) from the start.
std::string way_on_text(const std::string& folder, int64_t round);

// A message with one more hint; an empty one adds nothing.
std::string with_hint(const std::string& text, const std::string& hint);

// An error of files gets the hint; others would come again.
std::exception_ptr with_way_on(std::exception_ptr failure, const std::string& hint);

// As agree(), for a failure behind the start, also where a rule calls it bad input. Collective.
void agree_running(Communicator& comm, const std::exception_ptr& failure);

}  // namespace hanse
